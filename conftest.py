"""What all tests share: how hypothesis tries examples. A slow machine is no fault of what is tested."""

from hypothesis import settings

settings.register_profile("kipu", deadline=None)
settings.load_profile("kipu")
