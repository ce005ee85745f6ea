"""The paper's evaluation, each figure and table by one command: ``ibp reproduce NAME``.

A module for each figure says what is run (`Study.cells`, `Study.run`), how it is drawn and what is
to be said of it; the rest is shared: cells and their order (`running`), CSV files (`tables`), fits
under the two protocols (`fits`, `protocols`), the paper's values (`paper`), pictures and pages.
"""
