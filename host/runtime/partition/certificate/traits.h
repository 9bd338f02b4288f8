/* partition/certificate/traits.h - a node as a list of traits, by which a certificate states where a provider was
 * checked: types, ranks, attributes, constants, sizes, and magnitudes of values.
 *
 * Traits are coarse, so that a few hundred cases have all that nodes of models have: numbers above 4 are counted in
 * powers of two, sizes by their remainder and their power of two. */
#ifndef PARTITION_CERTIFICATE_TRAITS_H
#define PARTITION_CERTIFICATE_TRAITS_H
#include "graph/graph.h"

enum {
    TRAIT_FORM,      /* "dilations 3", "X of rank 4": nodes are compared by pairs of these, too; level is 0 */
    TRAIT_REMAINDER, /* "size 1 of X": level is the size modulo 8, plus 8 if it is above 16 */
    /* "elements", "values of X": level is a power of four; "size 1 of X": of two. A check covers the lower ones, too */
    TRAIT_AMOUNT,
    TRAIT_KINDS
};
enum { TRAIT_BYTES = 192, MOST_TRAITS = 224, TRAIT_LARGE_SIZE = 8 /* level of a remainder for sizes above 16 */ };

typedef struct node_trait {
    char name[TRAIT_BYTES];
    double level;
    uint32_t kind;
    bool is_open; /* the level is known only during the run */
} node_trait;

typedef struct node_traits {
    node_trait list[MOST_TRAITS]; /* [count], each once */
    uint32_t count;
    bool is_cut; /* the node has more traits, or one that has no name: no certificate covers it */
} node_traits;

/* The largest absolute value of the finite elements of input `input`; NAN: not known. */
typedef double (*traits_magnitude_fn)(void *user, uint32_t input);

/* Lists the traits of a node of a graph whose types are inferred. magnitude NULL: that of constants is computed, that
 * of other inputs is open. Thread-safe. */
void traits_list(const struct graph *graph, uint32_t node, traits_magnitude_fn magnitude, void *user, node_traits *out);
/* Writes a hash of all that the graph says about the node: operator, version, attributes, types, sizes, which inputs
 * are constants, their numbers where they are few or integers, otherwise their magnitude. False: the node has a body,
 * or a type or size that is known only during the run. Thread-safe. */
enum { TRAITS_EXACT_BYTES = 33 };
bool traits_exact(const struct graph *graph, uint32_t node, char out_text[TRAITS_EXACT_BYTES]);
/* Adds a trait, unless it is listed already. */
void traits_add(node_traits *traits, uint32_t kind, double level, bool is_open, const char *name);

/* The largest absolute value of the finite elements; `data` may be misaligned. NAN: the type is no float. */
double traits_magnitude(inlay_dtype dtype, const void *data, int64_t count);

/* Name of the amount that stands for NaN and infinities in the inputs. */
extern const char traits_not_finite[];

/* A range of levels of a trait: all that the certificate says about it. */
typedef struct trait_range {
    uint32_t kind;
    const char *name;
    double low, high; /* both included */
} trait_range;

/* True also for an open trait, whose level may be in the range. */
bool traits_in_range(const node_trait *trait, const trait_range *range);
/* "dilations 3", "size 1 of X 8 n + 3", "elements from 4096". Returns text. */
char *trait_range_text(const trait_range *range, char *text, size_t bytes);
/* "dilations 3", "size 1 of X 8 n + 3", "4096 elements". Returns text. */
char *trait_text(const node_trait *trait, char *text, size_t bytes);
#endif
