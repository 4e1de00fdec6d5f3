"""FLOOR 3: what the life of a broker and its peers is made of."""
