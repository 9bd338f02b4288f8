/* work_ns.h - the expected work of single operators, by a table of measured times (work.def). For kit_provider.work_ns.
 */
#ifndef WORK_NS_H
#define WORK_NS_H
#include "inlay/kit_kernel.h"

/* Nanoseconds of a kernel's work on one thread of this machine; estimate: for operators without a row. Compiled for the
 * baseline, and with vectors of the CPU. The former is at least the kit's estimate: provider reference is priced too
 * high rather than too low where it is only one of several providers. Any thread. */
double operator_plain_work_ns(const kit_node *node, const kit_plan *shapes, double estimate);
double operator_vector_work_ns(const kit_node *node, const kit_plan *shapes, double estimate);
#endif
