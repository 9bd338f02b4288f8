/* passes/spell.h - what a pass that spells an operator out in others is written with.
 *
 *     uint32_t s = spell_op(b, "Add", 14, spell_in(b, 0), spell_in(b, 1));
 *     spell_output(b, 0, spell_op(b, "Gelu", 20, s));
 *
 * Want of memory is remembered and looked at once, at the end; what is made of INLAY_NONE is INLAY_NONE. */
#ifndef PASSES_SPELL_H
#define PASSES_SPELL_H
#include "passes/rewrite.h"

struct spell {
    struct rewrite *rewrite;
    graph_node *node;    /* what is spelled out */
    graph_node *last;    /* the node that was made last */
    uint32_t outputs[8]; /* 1 + the value that becomes output i; 0: nobody asked for it */
    inlay_status status;
};
enum { SPELL_OUTPUTS = 8 };

/* A node of ai.onnx at that opset with one output, of the type of its first input; inputs end with SPELL_END. */
#define SPELL_END (INLAY_NONE - 1u)
uint32_t spell_make(struct spell *spell, const char *op_type, int64_t opset, inlay_dtype dtype, uint32_t outputs,
                    const uint32_t *inputs);
#define spell_op(b, op_type, opset, ...)                                                                               \
    spell_make(b, op_type, opset, INLAY_UNDEFINED, 1, (const uint32_t[]){ __VA_ARGS__, SPELL_END })
/* The same, of another type. */
#define spell_typed(b, op_type, opset, dtype, ...)                                                                     \
    spell_make(b, op_type, opset, dtype, 1, (const uint32_t[]){ __VA_ARGS__, SPELL_END })
/* Output i of the node that was made last. */
uint32_t spell_out(const struct spell *spell, uint32_t i);
/* Attributes of the node that was made last. */
void spell_int(struct spell *spell, const char *name, int64_t value);
void spell_ints(struct spell *spell, const char *name, const int64_t *values, uint32_t count);
void spell_float(struct spell *spell, const char *name, double value);
void spell_string(struct spell *spell, const char *name, const char *value);
/* The node's own attributes of these names, a NULL at the end, where it states them. */
void spell_copy(struct spell *spell, const char *const *names);

/* Input i of the node that is spelled out. */
static inline uint32_t spell_in(const struct spell *spell, uint32_t i)
{
    return rw_input(spell->rewrite, spell->node, i);
}
inlay_dtype spell_dtype(const struct spell *spell, uint32_t v);
/* INLAY_RANK_UNKNOWN when it is not known. */
uint32_t spell_rank(const struct spell *spell, uint32_t v);
/* Constants: a number of that float type, integers of rank 1. */
uint32_t spell_number(struct spell *spell, inlay_dtype dtype, double value);
uint32_t spell_integers(struct spell *spell, const int64_t *values, uint32_t count);
#define spell_list(b, ...)                                                                                             \
    spell_integers(b, (const int64_t[]){ __VA_ARGS__ },                                                                \
                   (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
uint32_t spell_cast(struct spell *spell, uint32_t v, inlay_dtype to); /* v itself where it is of that type */
uint32_t spell_transpose(struct spell *spell, uint32_t v, const int64_t *perm, uint32_t rank);
/* The same for any rank, as Einsum has it: "a...b->...ba". */
uint32_t spell_axes(struct spell *spell, uint32_t v, const char *equation);
/* v where its rank is known; otherwise as something of that rank, which a run checks. */
uint32_t spell_ranked(struct spell *spell, uint32_t v, uint32_t rank);

/* Where the rank of input i is not known: puts an If on it in the place of the node, each branch of which has the node
 * with that input of one rank from low to high, to be lowered there. A run with another rank fails. To be called before
 * anything is made. false: the rank is known, or the input is omitted. */
bool spell_by_rank(struct spell *spell, uint32_t i, uint32_t low, uint32_t high);

/* Leaves the node as it is, for that reason, which an error names when no provider runs it: "mask_index is of unknown
 * rank". To be called before anything is made. why == NULL: nothing is in the way, returns false. */
bool spell_refuse(struct spell *spell, const char *why);

/* Is output output of the node asked for? */
static inline bool spell_wants(const struct spell *spell, uint32_t output)
{
    return output < spell->node->info.output_count && spell->node->info.outputs[output] != INLAY_NONE;
}
/* Output o of the node, below SPELL_OUTPUTS, is to be v. */
void spell_output(struct spell *spell, uint32_t o, uint32_t v);
/* Puts all this in the place of the node. */
INLAY_NODISCARD inlay_status spell_end(struct spell *spell);
#endif
