"""The project's tools, one package for each thing they do; `python -m tools` is their program."""
