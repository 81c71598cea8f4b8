"""Whether two runs may be compared, and what comparing them shows. Pure: no database, no framework, no drawing."""
