"""Write memory files: remember, edit, move, forget."""
