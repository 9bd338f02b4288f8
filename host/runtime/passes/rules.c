/* Matches rules (rules.h). A match makes decisions: which side of a sum is which, which alternative, which factor. They
 * are kept in a list; if an attempt fails, the last decision that has another option takes it, and the match starts
 * again. So the first match in the order of the options is found without a stack of continuations. */
#include "passes/rules.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FACTORS = 6, MAX_VISITS = 24 };

static const uint32_t UNBOUND = 0xfefefefe; /* no index of a value; memset() writes it */

static bool match_term(rule_match *match, const rule_term *term, uint32_t value);

static uint32_t choose(rule_match *match, uint32_t options)
{
    INLAY_CHECK(options > 0 && match->depth < RULE_CHOICES);
    if (match->at == match->depth) {
        match->choices[match->depth] = 0;
        match->options[match->depth++] = (uint8_t)options;
    }
    return match->choices[match->at++];
}

/* Moves to the next list of decisions. Returns false if there is none. */
static bool decide_again(rule_match *match)
{
    while (match->depth > 0 && match->choices[match->depth - 1] + 1 >= match->options[match->depth - 1])
        match->depth--;
    if (match->depth == 0)
        return false;
    match->choices[match->depth - 1]++;
    return true;
}

/* A check that is not about operators: a near miss may fail one of them. */
static bool check(rule_match *match, bool holds, const char *why)
{
    if (holds || !match->forgives || why == NULL)
        return holds;
    match->why = why;
    return ++match->misses == 1;
}

/* The factors of a product: operands of the Mul nodes that lead to a value, with the constant ones multiplied. */
struct product {
    uint32_t factors[MAX_FACTORS];
    uint32_t count;
    uint32_t visits;
    double constant;
    bool is_whole; /* false: the limits were exceeded and factors are missing */
};

static void collect(const struct rewrite *rewrite, uint32_t value, bool inner, struct product *product)
{
    const graph_node *mul = rewrite_producer_op(rewrite, value, "Mul"),
                     *div = rewrite_producer_op(rewrite, value, "Div");
    double number;

    /* NOLINTNEXTLINE(bugprone-branch-clone): two conditions with the same result */
    if (++product->visits > MAX_VISITS) { /* a chain of products can be as long as the model */
        product->is_whole = false;
    } else if (rewrite_scalar(rewrite, value, &number)) {
        product->constant *= number;
    } else if (mul != NULL && mul->info.since_version >= 7 && (!inner || rewrite_has_one_use(rewrite, value))) {
        collect(rewrite, rewrite_input(rewrite, mul, 0), true, product);
        collect(rewrite, rewrite_input(rewrite, mul, 1), true, product);
    } else if (div != NULL && div->info.since_version >= 7 && (!inner || rewrite_has_one_use(rewrite, value)) &&
               rewrite_scalar(rewrite, rewrite_input(rewrite, div, 1), &number)) {
        product->constant /= number;
        collect(rewrite, rewrite_input(rewrite, div, 0), true, product);
    } else if (product->count < MAX_FACTORS) {
        product->factors[product->count++] = value;
    } else {
        product->is_whole = false;
    }
}

static bool match_product(rule_match *match, const rule_term *term, uint32_t value)
{
    struct product product = { .constant = 1, .is_whole = true };

    collect(match->rewrite, value, false, &product);
    if (!product.is_whole || product.count != term->count ||
        !check(match, rewrite_is_near(match->rewrite, value, product.constant, term->number), term->why))
        return false;
    for (uint32_t i = 0; i < term->count; i++) {
        const uint32_t pick = choose(match, product.count), factor = product.factors[pick];

        product.factors[pick] = product.factors[--product.count];
        if (!match_term(match, &term->args[i], factor))
            return false;
    }
    return true;
}

static bool match_attr(rule_match *match, const rule_attr *attr, const graph_node *node)
{
    const inlay_attr_info *found = graph_attr(node, attr->name);
    const double number = found == NULL                     ? NAN
                          : found->kind == INLAY_ATTR_INT   ? (double)found->i
                          : found->kind == INLAY_ATTR_FLOAT ? (double)found->f
                                                            : NAN;

    switch (attr->kind) {
    case RULE_ATTR_TEXT:
        return check(match, rewrite_attr_is(node, attr->name, attr->text), attr->why);
    case RULE_ATTR_INTS:
        return check(match,
                     found != NULL && found->kind == INLAY_ATTR_INTS && found->count == attr->count &&
                         memcmp(found->ints, attr->ints, attr->count * sizeof *attr->ints) == 0,
                     attr->why);
    case RULE_ATTR_SLOT:
        match->numbers[attr->slot] = number;
        return !isnan(number);
    default:
        return check(match,
                     number == attr->number ||
                         (attr->number != (double)(float)attr->number &&
                          rewrite_is_near(match->rewrite, node->info.outputs[0], number, attr->number)),
                     attr->why);
    }
}

static bool is_op(const rule_term *term, const graph_node *node)
{
    return node->info.since_version >= term->first && node->info.since_version <= term->last &&
           strcmp(node->info.op_type.data, term->text) == 0 && strcmp(node->info.domain.data, term->domain) == 0;
}

/* Returns false if a look at the producer shows that the term does not match the value: most terms do not. */
static bool may_match(const rule_match *match, const rule_term *term, uint32_t value)
{
    const graph_node *node;

    switch (term->kind) {
    case RULE_OP:
        node = rewrite_producer(match->rewrite, value);
        return node != NULL && node->info.op_type.data[0] == term->text[0];
    case RULE_EITHER:
        for (uint32_t i = 0; i < term->count; i++)
            if (may_match(match, &term->args[i], value))
                return true;
        return false;
    case RULE_NUMBER:
    case RULE_SCALAR:
        return match->forgives || rewrite_is_constant(match->rewrite, value);
    default:
        return true;
    }
}

/* The same for the inputs of a node in one order. */
static bool inputs_may_match(const rule_match *match, const rule_term *term, const graph_node *node, bool swapped)
{
    for (uint32_t i = 0; i < term->count; i++)
        if (!may_match(match, &term->args[i], rewrite_input(match->rewrite, node, swapped ? 1 - i : i)))
            return false;
    return true;
}

/* Inputs that the pattern does not mention must be omitted. */
static bool match_node(rule_match *match, const rule_term *term, const graph_node *node)
{
    const bool straight = inputs_may_match(match, term, node, false),
               crossed = term->commutes && inputs_may_match(match, term, node, true);
    bool swapped = crossed;

    if (!straight && !crossed)
        return false;
    if (straight && crossed)
        swapped = choose(match, 2) == 1;
    for (uint32_t i = term->count; i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            return false;
    for (uint32_t i = 0; i < term->attr_count; i++)
        if (!match_attr(match, &term->attrs[i], node))
            return false;
    for (uint32_t i = 0; i < term->count; i++)
        if (!match_term(match, &term->args[i], rewrite_input(match->rewrite, node, swapped ? 1 - i : i)))
            return false;
    return true;
}

static bool match_op(rule_match *match, const rule_term *term, uint32_t value)
{
    const graph_node *node = rewrite_producer(match->rewrite, value);

    if (node == NULL || !is_op(term, node) || rewrite_resolve(match->rewrite, value) != node->info.outputs[0])
        return false;
    for (uint32_t i = 1; i < node->info.output_count; i++)
        if (!rewrite_is_unused(match->rewrite, node, i))
            return false;
    return match_node(match, term, node);
}

static bool match_either(rule_match *match, const rule_term *term, uint32_t value)
{
    uint32_t possible[RULE_CHOICES], count = 0;

    for (uint32_t i = 0; i < term->count; i++)
        if (may_match(match, &term->args[i], value))
            possible[count++] = i;
    if (count == 0)
        return false;
    return match_term(match, &term->args[possible[count == 1 ? 0 : choose(match, count)]], value);
}

static bool match_term(rule_match *match, const rule_term *term, uint32_t value)
{
    uint32_t *slot = &match->values[term->slot];
    bool holds;

    if (value == INLAY_NONE && term->kind != RULE_VALUE && term->kind != RULE_EITHER)
        return false;
    if (term->label > 0)
        match->values[term->label - 1] = value;
    if (term->once && !check(match, rewrite_has_one_use(match->rewrite, value), term->why))
        return false;
    switch (term->kind) {
    case RULE_SCALAR:
        return check(match, rewrite_scalar(match->rewrite, value, &match->numbers[term->slot]), term->why);
    case RULE_NUMBER:
        return check(match, rewrite_is_scalar(match->rewrite, value, term->number), term->why);
    case RULE_OP:
        return match_op(match, term, value);
    case RULE_EITHER:
        return match_either(match, term, value);
    case RULE_PRODUCT:
        return match_product(match, term, value);
    default:
        holds = *slot == UNBOUND || *slot == value;
        *slot = value;
        return (value != INLAY_NONE || term->optional) && check(match, holds, term->why);
    }
}

/* One attempt with the decisions made so far. */
static bool attempt(rule_match *match, const rewrite_rule *rule)
{
    const rule_term *pattern = &rule->pattern;
    graph_node *node = match->node;

    memset(match->values, 0xfe, rule->slot_count * sizeof *match->values);
    match->values[0] = node->info.outputs[0];
    match->at = match->misses = 0;
    if (pattern->kind == RULE_OP ? !match_node(match, pattern, node)
                                 : !match_term(match, pattern, node->info.outputs[0]))
        return false;
    for (uint32_t i = 0; i < rule->clause_count; i++)
        if (!match_term(match, rule->clauses[i].args, match->values[rule->clauses[i].slot]))
            return false;
    if (match->misses > 0)
        return true;
    if (!check(match, pass_allows(match->rewrite->ctx, rule->opset), "the opset of the file has no such operator"))
        return false;
    for (uint32_t i = 0; i < rule->condition_count && match->misses == 0; i++) {
        const rule_condition *condition = &rule->conditions[i];

        if (!check(match, condition->holds(match, condition->slots, condition->number), condition->why))
            return false;
    }
    return true;
}

/* Returns false if a look at the node and its producers shows that the pattern does not match. */
static bool may_begin(const rule_match *match, const rule_term *pattern)
{
    const uint32_t *letters = match->letters, *inputs = pattern->inputs;

    if (pattern->kind == RULE_OP)
        return (inputs[0] == 0 ||
                ((letters[0] & inputs[0]) != 0 && (inputs[1] == 0 || (letters[1] & inputs[1]) != 0)) ||
                (pattern->commutes && (letters[1] & inputs[0]) != 0 && (letters[0] & inputs[1]) != 0)) &&
               is_op(pattern, match->node);
    for (uint32_t i = 0; pattern->kind == RULE_EITHER && i < pattern->count; i++)
        if (may_begin(match, &pattern->args[i]))
            return true;
    return pattern->kind != RULE_EITHER;
}

static bool match_rule(rule_match *match, const rewrite_rule *rule)
{
    match->depth = 0;
    if (!may_begin(match, &rule->pattern))
        return false;
    do {
        if (attempt(match, rule))
            return true;
    } while (decide_again(match));
    return false;
}

static int compare_anchor(const void *op_type, const void *anchor)
{
    return strcmp(op_type, ((const rule_anchor *)anchor)->op_type);
}

static const rule_anchor *find_anchor(const rule_set *set, const char *op_type)
{
    if ((set->letters & RULE_LETTER(op_type[0])) == 0)
        return NULL;
    return bsearch(op_type, set->anchors, set->anchor_count, sizeof *set->anchors, compare_anchor);
}

static bool has_one_output(const struct rewrite *rewrite, const graph_node *node)
{
    for (uint32_t i = 1; i < node->info.output_count; i++)
        if (!rewrite_is_unused(rewrite, node, i))
            return false;
    return node->info.output_count > 0 && node->info.outputs[0] != INLAY_NONE;
}

/* RULE_LETTER of the operator that produces an input; 1: none does. */
static uint32_t producer_letter(const struct rewrite *rewrite, const graph_node *node, uint32_t i)
{
    const graph_node *producer = rewrite_producer(rewrite, rewrite_input(rewrite, node, i));

    return producer == NULL ? 1 : RULE_LETTER(producer->info.op_type.data[0]);
}

static inlay_status apply(const rule_set *set, const rule_anchor *anchor, struct rewrite *rewrite, graph_node *node)
{
    rule_match match;

    match.rewrite = rewrite;
    match.node = node;
    match.forgives = false;
    match.why = "";
    match.letters[0] = producer_letter(rewrite, node, 0);
    match.letters[1] = producer_letter(rewrite, node, 1);
    for (uint32_t i = 0; i < anchor->count; i++)
        if (match_rule(&match, &set->rules[anchor->rules[i]]))
            return rule_replace(&set->rules[anchor->rules[i]], &match, set->decomposes);
    match.forgives = rewrite->ctx->run.at_end;
    match.letters[0] = match.letters[1] = ~0u;
    for (uint32_t i = 0; match.forgives && i < anchor->count; i++) {
        const rewrite_rule *rule = &set->rules[anchor->rules[i]];

        if (rule->near_miss == NULL || !match_rule(&match, rule))
            continue;
        rewrite_near_miss(rewrite, node, "%s: %s", rule->near_miss, match.why);
        break;
    }
    return INLAY_OK;
}

inlay_status rules_apply(const rule_set *set, struct rewrite *rewrite, graph_node *node)
{
    const rule_anchor *anchor = find_anchor(set, node->info.op_type.data);

    if (anchor == NULL || node->schema == NULL || (!set->decomposes && !has_one_output(rewrite, node)))
        return INLAY_OK;
    return apply(set, anchor, rewrite, node);
}

bool rules_match_op(const rule_set *set, const char *domain, const char *op_type)
{
    const rule_anchor *anchor = find_anchor(set, op_type);

    for (uint32_t i = 0; anchor != NULL && i < anchor->count; i++)
        if (strcmp(set->rules[anchor->rules[i]].pattern.domain, domain) == 0)
            return true;
    return false;
}
