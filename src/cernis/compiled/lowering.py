"""Kernels as less LLVM code: what Numba's translation of borrowing functions can leave out.

Numba translates a function to LLVM code, instruction by instruction, in Python; LLVM then reads all
of it. Much of the code of a kernel is about tuples of dozens of arrays of seven numbers each, and
disappears when LLVM optimizes it. Here it is not made:

* A variable that is assigned once, before all its uses, is the value itself. Numba stores it in
  memory if another block uses it, and loads it, all arrays of a tuple, for each use.
* A variable that is not used any more is left alone. Numba overwrites it, as nothing must count its
  references twice; a borrowing function counts none.

What Numba asks again and again while it translates is remembered: the types of an operator
(`cernis.compiled.calls`), the size of a type, which it has LLVM compute from a text, and the
numbers that tuples of arrays have as arguments.

Turned down: a tuple as one argument between kernels, where Numba passes each number of each array.
It halved the translation, and sequences ran at half the rate.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from numba.core import analysis as _analysis
from numba.core import compiler_machinery as _machinery
from numba.core import cpu as _cpu
from numba.core import ir as _ir
from numba.core import lowering as _lowering
from numba.core import typed_passes as _typed_passes

analysis: Any = _analysis
register_pass: Any = _machinery.register_pass
CPUContext: Any = _cpu.CPUContext
Lower: Any = _lowering.Lower
NativeLowering: Any = _typed_passes.NativeLowering
_SIZES: dict[Any, int] = {}
_PACKERS: dict[tuple[int, ...], tuple[Any, tuple[Any, ...]]] = {}
_find_singly_assigned = Lower._find_singly_assigned_variable


class KernelContext(CPUContext):  # type: ignore[misc]
    """Numba's context of translating a function, with a memory of sizes."""

    def get_abi_sizeof(self, ty: Any) -> int:
        """Return the size of a type in bytes."""
        size = _SIZES.get(ty)
        if size is None:
            size = _SIZES[ty] = super().get_abi_sizeof(ty)
        return size

    def get_arg_packer(self, fe_args: Any) -> Any:
        """Return what takes arguments apart into numbers, and joins these."""
        key = tuple(map(id, fe_args))
        known = _PACKERS.get(key)
        if known is None:  # with the types, so that no other one gets their numbers
            known = _PACKERS[key] = super().get_arg_packer(fe_args), tuple(fe_args)
        return known[0]

    def refresh(self) -> None:
        """Do nothing: the compiler has just loaded what Numba knows."""


def adapt_context(context: Any, typing_context: Any) -> None:
    """Make Numba's context, which this compilation alone uses, one of kernels."""
    context.__class__ = KernelContext
    context.typing_context = typing_context
    context.__dict__.pop("call_conv", None)  # it refers to another context


class KernelLower(Lower):  # type: ignore[misc]
    """Numba's translation of a function, with fewer variables in memory."""

    def _find_singly_assigned_variable(self) -> None:
        if self.context.enable_nrt:
            _find_singly_assigned(self)
            return
        self._singly_assigned_vars = _find_values(self.func_ir.blocks)
        self._blk_local_varmap: dict[str, Any] = {}

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        """Assign to a variable."""
        if self.context.enable_nrt or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Forget a variable."""
        if self.context.enable_nrt:
            super().delvar(name)


def _find_values(blocks: Any) -> set[str]:
    """Return the variables that have one assignment, which runs before every use."""
    at: dict[str, int] = {}
    several = set(analysis.must_use_alloca(blocks))
    for number, block in blocks.items():
        for one in block.find_insts(_ir.Assign):
            name = one.target.name
            if name in at:
                several.add(name)
            at[name] = number
    uses = defaultdict(list)
    for number, names in analysis.compute_use_defs(blocks).usemap.items():
        for name in names:
            uses[name].append(number)
    before = analysis.compute_cfg_from_blocks(blocks).dominators()
    return {
        name
        for name, number in at.items()
        if name not in several and all(number in before[use] and number < use for use in uses[name])
    }


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """The step of Numba's compiler that translates a function."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        return KernelLower
