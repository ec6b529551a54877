"""Find what several notes say together: names, relations between them, and paths along them."""
