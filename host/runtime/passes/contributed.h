/* passes/contributed.h - the functions that spell out operators of ONNX Runtime's. Each looks at the node, and makes
 * nothing where the node cannot be spelled out (b->last stays NULL) but says why (spell_refuse). */
#ifndef PASSES_CONTRIBUTED_H
#define PASSES_CONTRIBUTED_H
#include "passes/spell.h"

#define CONTRIBUTED(name, function) void function(struct spell *b);
#include "passes/contributed.def"
#undef CONTRIBUTED

/* x as the activation `name` of FusedConv and FusedGemm has it; params are its alpha and beta where count says so. */
uint32_t contributed_activation(struct spell *spell, const char *name, uint32_t x, const double *params,
                                uint32_t count);
/* The product of integers a and w in units of both scales, and a bias; zero points and bias may be INLAY_NONE. */
uint32_t contributed_in_units(struct spell *spell, uint32_t a, uint32_t w, uint32_t a_zero, uint32_t w_zero,
                              uint32_t a_scale, uint32_t w_scale, uint32_t bias);
#endif
