"""The files of a workspace: which there are, what they are called, and what their bytes say."""
