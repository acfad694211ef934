"""assay.objects: the one reader of compiled GPU code objects, whoever made them.

An HSACO (AMD) or CUBIN (NVIDIA) goes in as bytes; kernels with their resources and arguments come out, or an
ObjectError that says what is wrong with the file. Nothing here imports Triton or needs a GPU.
"""

from assay.objects.amdgcn_text import count_instructions_amdgcn
from assay.objects.code_object import Argument, CodeObject, Descriptor, Kernel
from assay.objects.errors import ObjectError
from assay.objects.ptxas_report import PtxasReport, parse_ptxas_report
from assay.objects.read import identify, read_object
from assay.objects.resources import FOREIGN, Resources
from assay.objects.sass import (
    SassCounts,
    count_instructions_sass,
    count_local_accesses,
    find_disassembler,
    list_sass,
)

__all__ = [
    "FOREIGN",
    "Argument",
    "CodeObject",
    "Descriptor",
    "Kernel",
    "ObjectError",
    "PtxasReport",
    "Resources",
    "SassCounts",
    "count_instructions_amdgcn",
    "count_instructions_sass",
    "count_local_accesses",
    "find_disassembler",
    "identify",
    "list_sass",
    "parse_ptxas_report",
    "read_object",
]
