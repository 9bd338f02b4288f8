/* Intersections and differences of expressions, by the product of their automata: a state of the product is a tuple of
 * their states. */
#include "texts/grammar/grammar_internal.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 16, MAX_TUPLES = 1 << 16, BYTES = 256, NOWHERE = -1 };

/* States of the machines. A difference needs dead states, too. */
typedef struct machine_tuple {
    uint32_t states[MAX_PARTS]; /* the key; those that are not used are 0 */
    uint32_t index;
    bool accepts, lives; /* lives: an accepting one can be reached */
    UT_hash_handle hh;
    int32_t next[]; /* [class_count] */
} machine_tuple;

typedef struct machine_product {
    struct grammar *grammar;
    struct grammar *parts[MAX_PARTS]; /* [with_count + without_count] */
    uint32_t with_count, part_count;
    machine_tuple *table, **tuples; /* [tuple_count] */
    uint32_t tuple_count;
    /* Classes of bytes that each machine takes in the same way, in the order of the bytes; [class_count] their first
     * bytes, and BYTES. */
    uint32_t first[BYTES + 1], class_count;
    bool no_memory, too_large;
} machine_product;

static size_t tuple_bytes(const machine_product *product)
{
    return sizeof(machine_tuple) + product->class_count * sizeof(int32_t);
}

/* Returns the index of the tuple, which is added if it is new; NOWHERE: it is dead, or cannot be added. */
static int32_t add_tuple(machine_product *product, const uint32_t *states)
{
    machine_tuple *found;

    for (uint32_t i = 0; i < product->with_count; i++)
        if (states[i] == GRAMMAR_DEAD)
            return NOWHERE;
    HASH_FIND(hh, product->table, states, sizeof found->states, found);
    if (found != NULL)
        return (int32_t)found->index;
    product->too_large |= product->tuple_count == MAX_TUPLES || !grammar_take(product->grammar, tuple_bytes(product));
    found = !product->too_large && LIST_GROW(product->tuples, product->tuple_count) ? calloc(1, tuple_bytes(product))
                                                                                    : NULL;
    if (found == NULL) {
        product->no_memory |= !product->too_large;
        return NOWHERE;
    }
    memcpy(found->states, states, sizeof found->states);
    found->index = product->tuple_count;
    found->accepts = true;
    for (uint32_t i = 0; i < product->part_count; i++)
        found->accepts = found->accepts && grammar_accepts(product->parts[i], states[i]) == (i < product->with_count);
    found->lives = found->accepts;
    HASH_ADD(hh, product->table, states, sizeof found->states, found);
    product->tuples[product->tuple_count] = found;
    return (int32_t)product->tuple_count++;
}

static void find_classes(machine_product *product)
{
    for (uint32_t byte = 0; byte < BYTES; byte++) {
        bool same = byte > 0;

        for (uint32_t i = 0; same && i < product->part_count; i++)
            same = grammar_class(product->parts[i], (uint8_t)byte) ==
                   grammar_class(product->parts[i], (uint8_t)(byte - 1));
        if (!same)
            product->first[product->class_count++] = byte;
    }
    product->first[product->class_count] = BYTES;
}

static void explore(machine_product *product)
{
    uint32_t states[MAX_PARTS] = { 0 };

    find_classes(product);
    for (uint32_t i = 0; i < product->part_count; i++)
        states[i] = grammar_start(product->parts[i]);
    (void)add_tuple(product, states);
    for (uint32_t at = 0; at < product->tuple_count && !product->too_large && !product->no_memory; at++)
        for (uint32_t class = 0; class < product->class_count; class ++) {
            if (!grammar_spend(product->grammar, product->part_count))
                return;
            for (uint32_t i = 0; i < product->part_count; i++)
                states[i] =
                    grammar_next(product->parts[i], product->tuples[at]->states[i], (uint8_t)product->first[class]);
            product->tuples[at]->next[class] = add_tuple(product, states);
        }
    for (uint32_t i = 0; i < product->part_count; i++)
        product->too_large |= grammar_failed(product->parts[i]);
}

/* Finds the tuples from which an accepting one can be reached. */
static void find_living(const machine_product *product)
{
    enum { STEPS = 32 }; /* for a tuple's bytes */

    for (bool changed = true; changed && grammar_spend(product->grammar, (uint64_t)STEPS * product->tuple_count);) {
        changed = false;
        for (uint32_t at = product->tuple_count; at-- > 0;)
            for (uint32_t class = 0; class < product->class_count && !product->tuples[at]->lives; class ++) {
                const int32_t next = product->tuples[at]->next[class];

                if (next != NOWHERE && product->tuples[next]->lives)
                    product->tuples[at]->lives = changed = true;
            }
    }
}

/* Adds the graph of the living tuples. The first one is the start. */
static bool emit(const machine_product *product, struct grammar *grammar, grammar_node *out)
{
    grammar_edge *edges = NULL;
    uint32_t edge_count = 0;
    bool *accepts = calloc(product->tuple_count + 1u, sizeof *accepts), good = accepts != NULL;

    for (uint32_t at = 0; good && at < product->tuple_count; at++) {
        const machine_tuple *tuple = product->tuples[at];

        accepts[at] = tuple->accepts;
        for (uint32_t class = 0, end; good && class < product->class_count; class = end) {
            const int32_t next = tuple->next[class];

            for (end = class + 1; end < product->class_count && tuple->next[end] == next;)
                end++;
            if (next == NOWHERE || !product->tuples[next]->lives)
                continue;
            good = LIST_GROW(edges, edge_count);
            if (good)
                edges[edge_count++] = (grammar_edge){ at, (uint32_t)next, (uint8_t)product->first[class],
                                                      (uint8_t)(product->first[end] - 1) };
        }
    }
    if (good)
        *out = product->tuple_count > 0 && product->tuples[0]->lives
                   ? grammar_graph(grammar, accepts, product->tuple_count, edges, edge_count)
                   : grammar_never(grammar);
    free(accepts);
    free(edges);
    return good;
}

static void destroy(machine_product *product)
{
    machine_tuple *one, *more;

    HASH_ITER(hh, product->table, one, more) {
        HASH_DEL(product->table, one);
        free(one);
    }
    product->grammar->bytes -= product->tuple_count * tuple_bytes(product);
    free(product->tuples);
    for (uint32_t i = 0; i < product->part_count; i++)
        grammar_destroy(product->parts[i]);
}

bool grammar_product(struct grammar *grammar, const grammar_node *with, uint32_t with_count,
                     const grammar_node *without, uint32_t without_count, grammar_node *out, char *why)
{
    machine_product product = { .grammar = grammar, .with_count = with_count };
    bool good = with_count + without_count <= MAX_PARTS;

    *out = 0;
    if (grammar_has_ended(grammar, why))
        return false;
    product.too_large = !good;
    for (uint32_t i = 0; good && i < with_count + without_count; i++) {
        product.parts[i] = grammar_part(grammar, i < with_count ? with[i] : without[i - with_count]);
        good = product.parts[i] != NULL;
        product.part_count += good;
    }
    if (good)
        explore(&product);
    good = good && !product.too_large && !product.no_memory;
    if (good) {
        find_living(&product);
        good = emit(&product, grammar, out);
    }
    destroy(&product);
    good = !grammar_has_ended(grammar, why) && good;
    if (!good && !grammar_has_ended(grammar, NULL))
        (void)snprintf(why, GRAMMAR_WHY_BYTES,
                       product.too_large ? "together with the other keywords it needs more than 65,536 states"
                                         : "out of memory");
    return good;
}
