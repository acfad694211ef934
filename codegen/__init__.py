"""From YAML specs to code objects: expansion, rendering, compilation in worker processes, the compile cache."""
