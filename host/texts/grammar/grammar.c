/* The expressions of a grammar. */
#include "texts/grammar/grammar_internal.h"
#include "base/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_NODES = 1 << 18, /* expressions, and rules */
    MAX_TEXT = 1 << 22,  /* bytes of all texts */
    MACHINE_BYTES = 1 << 26,
    SHORT_TEXT = 16 /* bytes of a text that needs no rule */
};

struct grammar *grammar_create(void)
{
    struct grammar *grammar = calloc(1, sizeof *grammar);

    if (grammar == NULL)
        return NULL;
    (void)grammar_empty(grammar); /* node 0 is no expression that is used */
    if (grammar->no_memory) {
        grammar_destroy(grammar);
        return NULL;
    }
    return grammar;
}

void grammar_stop(struct grammar *grammar, const char *limit)
{
    if (grammar->limit == NULL)
        grammar->limit = limit;
    if (grammar->owner != NULL)
        grammar_stop(grammar->owner, limit);
}

bool grammar_has_ended(const struct grammar *grammar, char *why)
{
    if (grammar != NULL && grammar->limit == NULL && !grammar->no_memory)
        return false;
    if (why != NULL && grammar != NULL && grammar->limit != NULL)
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "the grammar is too large: %s", grammar->limit);
    else if (why != NULL)
        (void)snprintf(why, GRAMMAR_WHY_BYTES, "out of memory for the grammar");
    return true;
}

bool grammar_spend(struct grammar *grammar, uint64_t steps)
{
    struct grammar *owner;

    if (grammar_has_ended(grammar, NULL))
        return false;
    owner = grammar->owner != NULL ? grammar->owner : grammar;
    if (steps > GRAMMAR_STEPS - owner->spent) {
        owner->spent = GRAMMAR_STEPS;
        grammar_stop(grammar, "more than 33,554,432 steps to build it");
        return false;
    }
    owner->spent += steps;
    return true;
}

uint64_t grammar_spent(const struct grammar *grammar)
{
    return grammar->spent;
}

bool grammar_take(struct grammar *grammar, size_t bytes)
{
    struct grammar *owner = grammar->owner != NULL ? grammar->owner : grammar;
    const size_t most = owner->finished ? MACHINE_BYTES : GRAMMAR_BYTES;

    if (bytes > most - owner->bytes) {
        if (!owner->finished)
            grammar_stop(grammar, "more than 32 MB of states and schemas");
        return false;
    }
    grammar->bytes += bytes;
    if (owner != grammar)
        owner->bytes += bytes;
    return true;
}

static void free_expressions(struct grammar *grammar)
{
    for (uint32_t i = 0; i < grammar->graph_count; i++) {
        free(grammar->graphs[i].accepts);
        free(grammar->graphs[i].edges);
    }
    free(grammar->graphs);
    free(grammar->nodes);
    strbuf_deinit(&grammar->texts);
}

void grammar_destroy(struct grammar *grammar)
{
    call_frame *one, *more;
    machine_state *state, *other;

    if (grammar == NULL)
        return;
    HASH_ITER(hh, grammar->machine.frame_table, one, more) {
        HASH_DEL(grammar->machine.frame_table, one);
        free(one);
    }
    HASH_ITER(hh, grammar->machine.state_table, state, other) {
        HASH_DEL(grammar->machine.state_table, state);
        free(state->positions);
        free(state->user);
        free(state);
    }
    free(grammar->machine.frames);
    free(grammar->machine.states);
    free(grammar->rules);
    free(grammar->program.steps);
    free(grammar->program.byte_steps);
    free(grammar->machine.growing.work);
    free(grammar->machine.growing.seen);
    free(grammar->machine.growing.seen_positions);
    if (grammar->owner != NULL)
        grammar->owner->bytes -= grammar->bytes;
    else
        free_expressions(grammar);
    free(grammar);
}

static grammar_node add_node(struct grammar *grammar, grammar_expression value)
{
    if (!grammar_spend(grammar, 1))
        return 0;
    if (grammar->node_count == MAX_NODES) {
        grammar_stop(grammar, "more than 262,144 expressions");
        return 0;
    }
    if (!LIST_GROW(grammar->nodes, grammar->node_count)) {
        grammar->no_memory = true;
        return 0;
    }
    grammar->nodes[grammar->node_count] = value;
    return grammar->node_count++;
}

grammar_node grammar_empty(struct grammar *grammar)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_EMPTY });
}

grammar_node grammar_never(struct grammar *grammar)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_NEVER });
}

bool grammar_is_never(const struct grammar *grammar, grammar_node which)
{
    return grammar != NULL && which < grammar->node_count && grammar->nodes[which].kind == NODE_NEVER;
}

grammar_node grammar_byte(struct grammar *grammar, uint8_t low, uint8_t high)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_BYTE, .first = low, .second = high });
}

grammar_node grammar_sequence(struct grammar *grammar, grammar_node first, grammar_node second)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_SEQUENCE, .first = first, .second = second });
}

grammar_node grammar_either(struct grammar *grammar, grammar_node first, grammar_node second)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_EITHER, .first = first, .second = second });
}

static grammar_node repeat_few(struct grammar *grammar, grammar_node repeated, uint32_t least, uint32_t most)
{
    return add_node(grammar,
                    (grammar_expression){ .kind = NODE_REPEAT, .first = repeated, .least = least, .most = most });
}

/* Copies share a rule. A large number of them is made from rules for BLOCK copies each, so that their steps exist once.
 */
enum { FEW_COPIES = 3, MAX_COPIES = 1000, BLOCK = 500 };

static grammar_node repeat_exactly(struct grammar *grammar, grammar_node repeated, grammar_node block, uint32_t count)
{
    return grammar_sequence(grammar, grammar_repeat(grammar, block, count / BLOCK, count / BLOCK),
                            repeat_few(grammar, repeated, count % BLOCK, count % BLOCK));
}

/* Either fewer blocks than there may be and fewer copies than a block has, or all blocks and the rest. */
static grammar_node repeat_up_to(struct grammar *grammar, grammar_node repeated, grammar_node block, uint32_t most)
{
    const uint32_t blocks = most / BLOCK;

    return grammar_either(grammar,
                          grammar_sequence(grammar, grammar_repeat(grammar, block, 0, blocks - 1),
                                           repeat_few(grammar, repeated, 0, BLOCK - 1)),
                          grammar_sequence(grammar, grammar_repeat(grammar, block, blocks, blocks),
                                           repeat_few(grammar, repeated, 0, most % BLOCK)));
}

grammar_node grammar_repeat(struct grammar *grammar, grammar_node repeated, uint32_t least, uint32_t most)
{
    const uint32_t optional = most == GRAMMAR_MANY ? 0 : most - least;
    grammar_node block, first, rest;
    uint32_t rule;

    if (least > FEW_COPIES || optional > FEW_COPIES)
        repeated = grammar_share(grammar, repeated);
    if (least <= MAX_COPIES && optional <= MAX_COPIES)
        return repeat_few(grammar, repeated, least, most);
    rule = grammar_rule(grammar);
    grammar_define(grammar, rule, repeat_few(grammar, repeated, BLOCK, BLOCK));
    block = grammar_refer(grammar, rule);
    first = least > MAX_COPIES ? repeat_exactly(grammar, repeated, block, least)
                               : repeat_few(grammar, repeated, least, least);
    if (most == GRAMMAR_MANY)
        rest = repeat_few(grammar, repeated, 0, GRAMMAR_MANY);
    else
        rest = optional > MAX_COPIES ? repeat_up_to(grammar, repeated, block, optional)
                                     : repeat_few(grammar, repeated, 0, optional);
    return grammar_sequence(grammar, first, rest);
}

grammar_node grammar_graph(struct grammar *grammar, const bool *accepts, uint32_t state_count,
                           const grammar_edge *edges, uint32_t edge_count)
{
    state_graph graph = { .state_count = state_count, .edge_count = edge_count };

    if (!grammar_spend(grammar, (uint64_t)state_count + edge_count))
        return 0;
    if (state_count == 0)
        return grammar_never(grammar);
    if (!grammar_take(grammar, state_count * sizeof *accepts + edge_count * sizeof *edges))
        return 0;
    graph.accepts = malloc(state_count * sizeof *graph.accepts);
    graph.edges = malloc((edge_count + 1u) * sizeof *graph.edges);
    if (graph.accepts == NULL || graph.edges == NULL || !LIST_GROW(grammar->graphs, grammar->graph_count)) {
        free(graph.accepts);
        free(graph.edges);
        grammar->no_memory = true;
        return 0;
    }
    memcpy(graph.accepts, accepts, state_count * sizeof *accepts);
    if (edge_count > 0)
        memcpy(graph.edges, edges, edge_count * sizeof *edges);
    grammar->graphs[grammar->graph_count] = graph;
    return add_node(grammar, (grammar_expression){ .kind = NODE_GRAPH, .first = grammar->graph_count++ });
}

grammar_node grammar_text(struct grammar *grammar, const char *text, size_t bytes)
{
    grammar_expression value = { .kind = NODE_TEXT };

    if (!grammar_spend(grammar, bytes))
        return 0;
    if (bytes > MAX_TEXT - grammar->texts.size) {
        grammar_stop(grammar, "more than 4,194,304 bytes of texts");
        return 0;
    }
    value.first = (uint32_t)grammar->texts.size;
    value.second = value.first + (uint32_t)bytes;
    strbuf_add(&grammar->texts, text, bytes);
    grammar->no_memory |= grammar->texts.failed;
    return add_node(grammar, value);
}

/* The texts of `bytes` bytes from low to high, in the order of their bytes. All but the first byte of a range are from
 * 0x80 to 0xbf. */
static grammar_node byte_range(struct grammar *grammar, const uint8_t *low, const uint8_t *high, uint32_t bytes)
{
    static const uint8_t least[3] = { 0x80, 0x80, 0x80 }, most[3] = { 0xbf, 0xbf, 0xbf };
    grammar_node all = grammar_never(grammar);
    uint8_t first = low[0], last = high[0];

    if (bytes == 1)
        return grammar_byte(grammar, first, last);
    if (first == last)
        return grammar_sequence(grammar, grammar_byte(grammar, first, first),
                                byte_range(grammar, low + 1, high + 1, bytes - 1));
    if (memcmp(low + 1, least, bytes - 1) != 0) { /* not all texts that begin with the first byte */
        all = grammar_sequence(grammar, grammar_byte(grammar, first, first),
                               byte_range(grammar, low + 1, most, bytes - 1));
        first++;
    }
    if (memcmp(high + 1, most, bytes - 1) != 0) {
        all = grammar_either(grammar, all,
                             grammar_sequence(grammar, grammar_byte(grammar, last, last),
                                              byte_range(grammar, least, high + 1, bytes - 1)));
        last--;
    }
    if (first <= last)
        all = grammar_either(
            grammar, all,
            grammar_sequence(grammar, grammar_byte(grammar, first, last), byte_range(grammar, least, most, bytes - 1)));
    return all;
}

grammar_node grammar_chars(struct grammar *grammar, uint32_t low, uint32_t high)
{
    /* Ranges of characters with the same number of bytes, without the surrogates. */
    static const uint32_t ranges[][2] = {
        { 0, 0x7f }, { 0x80, 0x7ff }, { 0x800, 0xd7ff }, { 0xe000, 0xffff }, { 0x10000, 0x10ffff }
    };
    grammar_node all = grammar_never(grammar);

    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        uint32_t from = low > ranges[i][0] ? low : ranges[i][0], to = high < ranges[i][1] ? high : ranges[i][1];
        uint8_t first[4], last[4];

        if (from > to)
            continue;
        (void)utf8_put((char *)first, from);
        all = grammar_either(grammar, all, byte_range(grammar, first, last, (uint32_t)utf8_put((char *)last, to)));
    }
    return all;
}

uint32_t grammar_rule(struct grammar *grammar)
{
    if (!grammar_spend(grammar, 1))
        return 0;
    if (grammar->rule_count == MAX_NODES) {
        grammar_stop(grammar, "more than 262,144 rules");
        return 0;
    }
    if (!LIST_GROW(grammar->rules, grammar->rule_count)) {
        grammar->no_memory = true;
        return 0;
    }
    grammar->rules[grammar->rule_count] = GRAMMAR_DEAD; /* undefined */
    return grammar->rule_count++;
}

void grammar_define(struct grammar *grammar, uint32_t rule, grammar_node value)
{
    if (!grammar_has_ended(grammar, NULL))
        grammar->rules[rule] = value;
}

grammar_node grammar_refer(struct grammar *grammar, uint32_t rule)
{
    return add_node(grammar, (grammar_expression){ .kind = NODE_RULE, .first = rule });
}

grammar_node grammar_share(struct grammar *grammar, grammar_node node)
{
    const grammar_expression *value;
    uint32_t rule;

    if (grammar_has_ended(grammar, NULL))
        return 0;
    value = &grammar->nodes[node];
    switch (value->kind) {
    case NODE_EMPTY:
    case NODE_NEVER:
    case NODE_BYTE:
    case NODE_RULE:
        return node;
    case NODE_TEXT:
        if (value->second - value->first <= SHORT_TEXT)
            return node;
        /* fall through */
    default:
        rule = grammar_rule(grammar);
        grammar_define(grammar, rule, node);
        return grammar_refer(grammar, rule);
    }
}
