"""The embedder, the flusher and the annotator `litellm` of Kipu: the models of all providers that LiteLLM knows.

LiteLLM takes seconds and hundreds of megabytes to import, so it is imported with the first request, off the event loop.
"""

from .annotator import LitellmAnnotator
from .embedder import LitellmEmbedder
from .flusher import LitellmFlusher

__all__ = ["LitellmAnnotator", "LitellmEmbedder", "LitellmFlusher"]
