/* ops/signature.h - shared by the files that parse signatures of operators. schema.h has the grammar. signature.c
 * parses a signature, signature_words.c has the tokenizer and the errors, signature_types.c parses sets of types,
 * signature_attrs.c attributes.
 *
 * The text may come from a plug-in, so the parser trusts nothing, and each error message has the position of the
 * error. All memory comes from the caller's allocator, and its owner frees all of it together; a failed parse frees
 * nothing. */
#ifndef OPS_SIGNATURE_H
#define OPS_SIGNATURE_H
#include "schema.h"

struct parser {
    const char *text; /* the whole signature */
    const char *at;   /* the next character */
    op_alloc_fn alloc;
    void *alloc_ctx;
    inlay_diag *diag;
};

/* A part of the signature. */
struct span {
    const char *begin;
    size_t bytes;
};

/* The schema under construction. It is copied to the caller's memory when all counts are known. */
struct draft {
    op_formal inputs[OP_MAX_FORMALS], outputs[OP_MAX_FORMALS];
    struct span input_types[OP_MAX_FORMALS], output_types[OP_MAX_FORMALS];
    op_type_param types[3 * OP_MAX_FORMALS];
    op_attr attrs[OP_MAX_ATTRS];
    uint32_t input_count, output_count, type_count, attr_count;
    bool open_attrs;
};

/* INLAY_INVALID_ARGUMENT: "signature, character 12 (near ": T"): <what>"; place points into the signature. */
inlay_status sig_mistake(const struct parser *parser, const char *place, const char *what);
/* INLAY_LIMIT_EXCEEDED: "signature: more than <limit> <what>". */
inlay_status sig_too_many(const struct parser *parser, const char *what, int limit);

/* Skips spaces, tabs and line ends, which may precede any character or word. */
void sig_skip_space(struct parser *parser);
char sig_peek(struct parser *parser);            /* the next character, without consuming it; '\0' at the end */
bool sig_take(struct parser *parser, char sign); /* consumes the character if it is the next one */
/* Consumes the character, or fails with `what`. */
inlay_status sig_expect(struct parser *parser, char sign, const char *what);
/* Consumes letters, digits, '_' and '.', at least one, or fails with `what`. *out points into the signature. */
inlay_status sig_read_word(struct parser *parser, const char *what, struct span *out);
bool sig_span_is(struct span span, const char *word);

/* Copy to memory of the caller's allocator. */
inlay_status sig_copy(const struct parser *parser, const void *data, size_t bytes, const void **out);
inlay_status sig_copy_text(const struct parser *parser, struct span span, const char **out);

/* Parses a set of types: terms joined by | and -. depth: the number of enclosing sets, 0 for the outermost. */
inlay_status sig_read_set(struct parser *parser, uint32_t depth, op_types *out);
/* Parses the attributes, the last part of the signature, into the draft. */
inlay_status sig_read_attrs(struct parser *parser, struct draft *draft);
#endif
