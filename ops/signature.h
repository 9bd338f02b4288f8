/* signature.h - what the files that parse an operator's signature share. The grammar stands in schema.h; signature.c
 * reads the whole, signature_words.c what it is made of, signature_types.c sets of types, signature_attrs.c attributes.
 *
 * The text may come from a plugin, so every mistake is a sentence with its place and nothing is trusted. All that is
 * kept comes from the caller's allocator, which frees it all at once; a failure in between frees nothing. */
#ifndef OPS_SIGNATURE_H
#define OPS_SIGNATURE_H
#include "schema.h"

struct parser {
    const char *text; /* the whole signature */
    const char *at;   /* what is read next */
    op_alloc_fn alloc;
    void *alloc_ctx;
    inlay_diag *diag;
};

/* A piece of the signature. */
struct span {
    const char *begin;
    size_t bytes;
};

/* Everything is gathered here and copied out once its size is known. */
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

/* Spaces, tabs and line ends go before any sign or word. */
void sig_skip_space(struct parser *parser);
char sig_peek(struct parser *parser);            /* the next sign, not taken; '\0' at the end */
bool sig_take(struct parser *parser, char sign); /* takes the sign if it is next */
/* Takes the sign, or fails with `what`. */
inlay_status sig_expect(struct parser *parser, char sign, const char *what);
/* Takes letters, digits, '_' and '.', at least one, or fails with `what`. *out points into the signature. */
inlay_status sig_read_word(struct parser *parser, const char *what, struct span *out);
bool sig_span_is(struct span span, const char *word);

/* Copies, from the caller's allocator. */
inlay_status sig_copy(const struct parser *parser, const void *data, size_t bytes, const void **out);
inlay_status sig_copy_text(const struct parser *parser, struct span span, const char **out);

/* Reads a set of types: terms joined by | and -. depth: how many sets this one stands in, 0 for the outermost. */
inlay_status sig_read_set(struct parser *parser, uint32_t depth, op_types *out);
/* Reads the attributes, the signature's last part, into the draft. */
inlay_status sig_read_attrs(struct parser *parser, struct draft *draft);
#endif
