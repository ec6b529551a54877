"""The English words that statements are recognised by."""

from __future__ import annotations

__all__ = [
    "ADVERBS",
    "ATTITUDES",
    "BE",
    "INTERJECTIONS",
    "KINDS",
    "MODAL",
    "NEGATION",
    "PARTICIPLES",
    "PAST",
    "PLURALS",
    "PREPOSITIONS",
    "STOPPERS",
    "VERBS",
    "singular",
    "without_kind",
]

BE = frozenset("is are was were am be been being".split())
NEGATION = frozenset("not never longer cannot stopped quit hardly barely scarcely rarely seldom".split())
MODAL = frozenset(
    """may might could would should will can must shall cannot ca wo wouldn couldn shouldn plans plan planned hopes hope
    hoped wants want wanted intends intend going""".split()
)
ADVERBS = """now also still currently always often usually already just really only mostly sometimes rarely seldom
    mainly primarily officially then soon even once ever first recently finally""".split()
PREPOSITIONS = """in on at to with from for by of into about over under near through against via within inside behind
    across onto towards toward around along beside upon like""".split()

# Verbs that are recognised without an ending, in the plural and in the first person.
VERBS = """accept act add adopt answer approve attend avoid become begin belong block bring build buy cache call carry
    cause change choose collect come communicate connect consist contain contribute control cost cover create deliver
    depend deploy describe design develop direct discuss do drink drive eat edit employ enable end enjoy enter explain
    export feed fit fix follow found generate get give go grow handle have help hire host import include inform install
    integrate introduce invent join keep know lead learn leave let like live load lock love maintain make manage measure
    meet mentor merge miss mount move need offer open order organise organize own pay play power prefer prevent process
    produce protect provide publish pull push read receive record recommend reduce release rely remain remove rent
    replace report represent require return review ride run save schedule see sell send serve share show sing sleep
    speak spend start stay stop store study supply support take talk target teach test track train travel trigger trust
    understand update upgrade use visit wear work write""".split()
# Past tenses and participles that do not end in "-ed".
PAST = """ate became began bit bought broke brought built caught chose came did drank drew drove fed felt fell fled flew
    forgot fought found froze gave got grew had held hid kept knew laid led left lent lit lost made met paid ran rang
    rode rose sang sat saw sent set shook shot slept sold spent spoke stole stood struck swam swore swept taught threw
    took understood went woke won wore wrote beat bred dealt dug rebuilt rewrote split spun stuck""".split()
PARTICIPLES = """beaten become begun bitten bought born broken brought built bound caught chosen cut done drawn driven
    drunk eaten fed fallen flown forgotten found fought frozen given gone grown held heard hidden hit hung kept known
    laid led left lent let lit lost made meant met paid put read run rung said seen sent set shaken shot shown shut
    sold sung spent spoken spread split stolen struck sworn swept taken taught thrown torn told understood won woken
    worn written rewritten rebuilt""".split()
# The objects of these are what is thought, and not what is.
ATTITUDES = frozenset(
    """says said say thinks thought believes believed hopes hoped guesses guessed supposes claims claimed wonders
    wondered asks asked tells told suggests suggested mentions mentioned feels felt seems seemed suspects suspected
    doubts doubted hears heard expects expected wants wanted wishes wished pretends pretended dreams imagines assumes
    assumed considers considered proposes proposed argues argued tries tried sounds sounded looks looked""".split()
)
# Words that end as verbs do, and hardly ever are.
PLURALS = frozenset(
    """notes options results tests files logs users items steps details settings issues errors bugs keys names values
    types events days weeks months years hours minutes times things people pages links lists lines words parts
    rules tasks docs photos pictures questions answers services systems clients servers backups metrics sessions
    tokens clusters nodes pods jobs teams members friends customers series news ideas goals books its perhaps
    besides whereas towards afterwards upwards red bed hundred need speed seed feed indeed transactions
    materials methods accesses functions comments""".split()
)
# These begin sentences, and are no subjects.
INTERJECTIONS = frozenset(
    """wow thanks thank yeah yep yup hey hi hello oh ah well sure ok okay cool great pretty gonna nice awesome totally
    absolutely definitely sounds congrats good sorry right true haha lol image photo note todo""".split()
)
# What a name is, where it stands in front of it: "the database Heron" is Heron.
KINDS = frozenset(
    """actor actress agency album app artist author band bank boss brand building cat city cluster coach colleague
    company country customer database designer director district doctor dog editor engineer film firm framework
    friend game group hospital hotel island journalist lake language library magazine manager model module
    mountain movie museum musician nurse operator package painter person philosopher planet platform play player
    poet politician president product programmer project province region restaurant river school scientist
    sculptor server service ship singer song startup state station street team teacher tool town university
    vendor village writer""".split()
)
# An object ends in front of these.
STOPPERS = [
    *PREPOSITIONS,
    *ADVERBS,
    *sorted(BE),
    *"""and or but nor so because since until till while when where if unless than that which who whom whose what how
    why as after before during without except not never himself herself itself themselves myself yourself ourselves
    here there today yesterday tomorrow last next every each too well away back out up down off together instead again
    it him them me us you i he she they we this these those much very more most less rather quite has have had does did
    will would can could may might should must""".split(),
]


def singular(verb: str) -> str:
    """Return the third person of a verb in its base form, as "uses" for "use"."""
    if irregular := {"have": "has", "do": "does", "go": "goes", "be": "is"}.get(verb):
        return irregular
    if verb.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in {"a", "e", "o", "u"} else verb + "s"


def without_kind(name: str) -> str:
    """Return a name without what it says that it is: "Heron" for "database Heron"."""
    words = name.split()
    first = next((number for number, word in enumerate(words) if word[:1].isupper()), 0)
    return " ".join(words[first:]) if first and words[first - 1] in KINDS else name
