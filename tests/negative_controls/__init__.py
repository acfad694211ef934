"""Negative controls of the emulated gate: binaries and templates made wrong on purpose, which it must notice.

    make controls

deletes and alters every instruction of two shipped kernels in turn and writes docs/negative-controls.md.
"""
