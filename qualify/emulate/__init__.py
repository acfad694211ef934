"""`assay emulate`: one foreign gfx12 HSACO on the emulator. `request` and `arguments` need no numpy, the rest does."""
