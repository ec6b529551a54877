"""Have a model distil conversations and old files into memories."""
