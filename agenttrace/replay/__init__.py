"""Recordings of what models replied: the folder they are kept in, and the tapes that write and play them."""
