/* regex.c - the compiler of regex.h: a pattern's tree becomes a program of characters, splits, jumps and assertions. */
#include "regex_parts.h"
#include <stdlib.h>

/* MAX_NODES of regex_parse.c and nested counts multiply; this bounds what they come to. */
enum { MAX_PROGRAM = 100000 };

static uint32_t emit(parser *p, op o)
{
    regex *re = p->re;

    if (re->program_count >= MAX_PROGRAM)
        return regex_fail(p, INLAY_LIMIT_EXCEEDED, "the pattern is too large");
    if (!regex_grow(&re->program, &re->program_room, re->program_count, sizeof *re->program))
        return regex_fail(p, INLAY_OUT_OF_MEMORY, "no memory");
    re->program[re->program_count] = o;
    return re->program_count++;
}

static void emit_node(parser *p, uint32_t which);

static void emit_repeat(parser *p, const node *n)
{
    regex *re = p->re;
    uint32_t split, exits[MAX_REPEAT + 1], exit_count = 0;

    for (int32_t i = 0; i < n->min && p->status == INLAY_OK; i++)
        emit_node(p, n->a);
    if (n->max < 0) { /* split: once more, or on */
        split = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n->a);
        emit(p, (op){ .kind = OP_JUMP, .a = split });
        if (p->status == INLAY_OK)
            re->program[split] = (op){ OP_SPLIT, split + 1, re->program_count };
        return;
    }
    for (int32_t i = n->min; i < n->max && p->status == INLAY_OK; i++) {
        exits[exit_count++] = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n->a);
    }
    for (uint32_t i = 0; i < exit_count && p->status == INLAY_OK; i++)
        re->program[exits[i]] = (op){ OP_SPLIT, exits[i] + 1, re->program_count };
}

/* Recursion goes as deep as a sequence is long, which MAX_NODES bounds. */
static void emit_node(parser *p, uint32_t which)
{
    const node n = p->nodes[which];
    uint32_t split, jump;

    if (p->status != INLAY_OK)
        return;
    switch (n.kind) {
    case NODE_SET:
        emit(p, (op){ .kind = OP_SET, .a = n.a });
        break;
    case NODE_ASSERT:
        emit(p, (op){ .kind = OP_ASSERT, .a = n.a });
        break;
    case NODE_JOIN:
        emit_node(p, n.a);
        emit_node(p, n.b);
        break;
    case NODE_EITHER:
        split = emit(p, (op){ .kind = OP_SPLIT });
        emit_node(p, n.a);
        jump = emit(p, (op){ .kind = OP_JUMP });
        if (p->status == INLAY_OK)
            p->re->program[split] = (op){ OP_SPLIT, split + 1, p->re->program_count };
        emit_node(p, n.b);
        if (p->status == INLAY_OK)
            p->re->program[jump].a = p->re->program_count;
        break;
    case NODE_REPEAT:
        emit_repeat(p, &n);
        break;
    default:
        break;
    }
}

void regex_destroy(regex *re)
{
    if (re == NULL)
        return;
    free(re->program);
    free(re->ranges);
    free(re->sets);
    free(re);
}

inlay_status regex_create(const char *pattern, size_t bytes, regex **out_regex, inlay_diag *diag)
{
    parser p = { .at = pattern, .end = pattern + bytes, .start = pattern, .diag = diag };
    uint32_t root;

    *out_regex = NULL;
    p.re = calloc(1, sizeof *p.re);
    if (p.re == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    root = regex_parse(&p);
    if (p.status == INLAY_OK)
        emit_node(&p, root);
    if (p.status == INLAY_OK)
        emit(&p, (op){ .kind = OP_MATCH });
    free(p.nodes);
    if (p.status != INLAY_OK) {
        regex_destroy(p.re);
        return p.status;
    }
    *out_regex = p.re;
    return INLAY_OK;
}
