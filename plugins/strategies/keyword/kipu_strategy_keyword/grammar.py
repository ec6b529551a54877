"""Words of a query that only its grammar needs: they say nothing of what it is about.

English ones are not searched at all (`tokens.STOP_WORDS`). Those of other languages are, since their frequency shows
how common they are; but in a memory of several languages each is rare. So they count for the order, and little for
what a chunk covers of a query.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from . import tokens

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["grammatical"]

_LISTS = {
    "German": (
        "aber als am an auch auf aus bei bin bis da damit das dass dein dem den der des die dies dir doch du "
        "durch ein er es euch euer für gegen hab habe haben hat hatte hatten ich ihm ihn ihnen ihr im in ist ja "
        "jed kann kein können lange man mein mich mir mit muss müssen nach nicht noch nur ob oder ohne schon sein "
        "seit sich sie sind so soll über um und uns unser viel viele vom von vor wann war waren warum was weil "
        "welch welche welchem welchen welcher welches wem wen wenn wer werden wessen wie wieder wieviel wir wird "
        "wo woher wohin worden wozu wurde wurden zu zum zur"
    ),
    "Dutch": (
        "aan als ben bij dan dat de der die dit door een en er had heb hebben heeft het hij hoe hun ik in is je "
        "kan maar me met mijn naar niet nog of om onder ons ook op over te tot uit van veel voor waar waarom "
        "wanneer was wat we welke werd wie wij wordt ze zich zijn zo"
    ),
    "French": (
        "a à au aux avec c ce ces cette combien comment d dans de depuis des du elle en est et était été être il "
        "ils j je l la laquelle le lequel les leur lui m ma mais mes mon n ne nos notre nous on ont ou où par pas "
        "pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa se ses son sont sous sur t ta tes ton "
        "un une vos votre vous y"
    ),
    "Spanish": (
        "a al como cómo con cual cuál cuáles cuando cuándo cuánto cuánta cuántos cuántas de del donde dónde el "
        "ella en era es esta este fue ha han hasta hay la las le lo los más me mi muy no nos o para pero por "
        "porque que qué quien quién quiénes se ser si sin sobre son su sus también un una uno y ya"
    ),
    "Italian": (
        "a ai al alla anche che chi ci come con cosa cui da dai dal dalla dei del della delle di dove e è era gli "
        "ha hanno i il in io la le lei lo loro lui ma mi mio nel nella non o per perché più qual quale quali "
        "quando quanto quanti sei si sia sono su sua suo sul tra un una uno"
    ),
    "Portuguese": (
        "a ao aos as com como da das de desde do dos e é ela ele em era essa esse esta este eu foi há isso já lhe "
        "mais mas me meu minha muito na não nas no nos o onde os ou para pela pelo por porque qual quais quando "
        "quanto quantos que quem são se sem ser seu sua também tem um uma"
    ),
    "Russian": (
        "а без бы был была были было быть в во вам вас вот все всё вы где да для до его ее её если есть еще ещё "
        "же за зачем и из или им их к как какая какие какой какого каком когда кого ком кому которая которые "
        "который кто куда ли мне мой мы на над нас не него нет но о об он она они от откуда по под почему при с "
        "сколько со так такой то того тоже только ты у уже чем через что чтобы чья чье чей эта эти это этот я"
    ),
    "Turkish": (
        "ama bana bazı ben bir biri biz bu çok da daha de değil diye en gibi hangi hangisi hem hiç için ile ise "
        "kaç kadar ki kim kime kimin mi mı mu mü nasıl ne neden nedir nerede nereden nereye niçin niye o olan "
        "olarak oldu olduğu on onlar onu onun şey şu var ve veya ya yani yok zaman"
    ),
    "Hindi": (
        "अपना अपनी अपने और इन इस इसके उन उनका उनकी उनके उस उसका उसकी उसके एक ऐसे कब कर करता करती करते करना कहाँ "
        "कहां का कितना कितनी कितने किन किस किसका किसकी किसके किसको किसने किसे की कुछ के को कोई कौन कौनसा क्या "
        "क्यों गई गए गया जब जा जाता जाती जाते जो तक तब तो था थी थे द्वारा ने नहीं पर पास फिर बहुत भी में मैं यह "
        "यहाँ या ये रहता रहती रहा रही रहे लिए वह वहाँ वे साथ से हम ही हुआ हुई हुए हूँ है हैं हो होता होती होते "
        "होना"
    ),
}
# Characters of Chinese that stand for grammar and questions, in both ways to write it, and Japanese without kanji.
_N_GRAM = re.compile(
    "[的是在哪裡谁誰什么麼多少几幾吗嗎呢了和怎为為这這那与與及吧被把个個们們就都也]|^[\u3041-\u3096]+$"
)


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    lists = {language: frozenset(tokens.words(tokens.fold(words))) for language, words in _LISTS.items()}
    return {"English": tokens.STOP_WORDS, **lists}


def grammatical(words: Collection[str]) -> set[str]:
    """Return those of a query's words and n-grams that only its grammar needs, in the language with most of them."""
    found = {word for word in words if tokens.n_gram_length(word) and _N_GRAM.search(word)}
    # Of languages with equally many, English is the first. One word is no sign of a language.
    most = max((known.intersection(words) for known in _lists().values()), key=len)
    return found | most if len(most) > 1 else found
