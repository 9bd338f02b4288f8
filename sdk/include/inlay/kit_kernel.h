/* inlay/kit_kernel.h - kernels for the kit: the nodes that they see, their state, their calls, and tables of them.
 *
 * A part of inlay/kit.h, which explains the kit. Files that define kernels only need no more than this header. Those
 * that do not read graphs need less: kit_table.h, or kit_call.h if they only compute. */
#ifndef INLAY_KIT_KERNEL_H
#define INLAY_KIT_KERNEL_H
#include "inlay/execution.h"
#include "inlay/kit_table.h"
#endif
