/* pipe/pipe_parts.h - what the steps of pipe.h share. */
#ifndef PIPE_PIPE_PARTS_H
#define PIPE_PIPE_PARTS_H
#include "base/memory.h"
#include "pipe/pipe.h"

/* What the value at the end of the chain is. */
typedef enum pipe_kind { PIPE_NOTHING, PIPE_PICTURE, PIPE_NUMBERS, PIPE_SOUND, PIPE_DONE } pipe_kind;

enum { PIPE_MOST_WORDS = 16 };
typedef struct pipe_chain {
    graph_model *model;
    struct graph *graph;
    inlay_diag *diag;
    const pipe_request *request;
    uint32_t value;    /* the end of the chain; INLAY_NONE: it is empty */
    graph_node *maker; /* of it, or NULL */
    pipe_kind kind;
    bool post;
    uint32_t target;              /* pre: the input of the model. post: its output */
    uint32_t place;               /* what letterbox left for boxes, or INLAY_NONE */
    const char *step;             /* the step as it was written */
    char *words[PIPE_MOST_WORDS]; /* of the step: its name, then what stands between colons */
    uint32_t word_count;
    const char *makes; /* what its value is called */
    bool used[PIPE_MOST_WORDS];
    uint32_t outputs[8], output_count; /* post: what becomes outputs in its place */
} pipe_chain;

typedef struct pipe_step {
    const char *name, *makes; /* makes: what the value is called */
    bool pre, post;
    inlay_status (*add)(pipe_chain *chain);
} pipe_step;
extern const pipe_step pipe_text_steps[], pipe_picture_steps[]; /* each ends with a name NULL */

/* Fails with "step 'resize:0': text". */
INLAY_PRINTF(2, 3) inlay_status pipe_fail(pipe_chain *chain, const char *format, ...);
/* The value of word "name=..."; NULL: there is none. */
const char *pipe_option(pipe_chain *chain, const char *name);
/* Is there a word of that name alone? */
bool pipe_flag(pipe_chain *chain, const char *name);
/* The next word without "=" that nothing has used; NULL: there is none. */
char *pipe_word(pipe_chain *chain);
/* The whole number of an option, or `otherwise`. */
INLAY_NODISCARD inlay_status pipe_int(pipe_chain *chain, const char *name, int64_t otherwise, int64_t least,
                                      int64_t most, int64_t *out);
INLAY_NODISCARD inlay_status pipe_float(pipe_chain *chain, const char *name, double otherwise, double *out);
/* "224" or "224x320": height and width; a missing one is 0. */
INLAY_NODISCARD inlay_status pipe_size(pipe_chain *chain, const char *text, int64_t out[2]);
/* The text of a file, as the model's; ended by a NUL. */
INLAY_NODISCARD inlay_status pipe_file(pipe_chain *chain, const char *path, inlay_str *out);

/* A new value; name NULL: a made-up one. What is taken gets a number behind it. NULL after a failure: INLAY_NONE. */
uint32_t pipe_value(pipe_chain *chain, const char *name);
/* Appends an operator that reads the end of the chain and makes one value, the new end. */
INLAY_NODISCARD inlay_status pipe_node(pipe_chain *chain, const char *domain, const char *op, graph_node **out);
/* Makes a new input of the model the end of the chain. dims: -1 for open ones, called names[i]. */
INLAY_NODISCARD inlay_status pipe_input(pipe_chain *chain, const char *name, inlay_dtype dtype, uint32_t rank,
                                        const int64_t *dims, const char *const *names);
/* Puts a value among the outputs that take the place of the model's; dtype and rank are declared, sizes are open. */
INLAY_NODISCARD inlay_status pipe_output(pipe_chain *chain, uint32_t value, inlay_dtype dtype, uint32_t rank);
/* What is declared of the target: its rank (INLAY_RANK_UNKNOWN), its size along an axis (-1 = open). */
uint32_t pipe_target_rank(const pipe_chain *chain);
int64_t pipe_target_size(const pipe_chain *chain, uint32_t axis);
/* Are the channels of the target its last axis? */
bool pipe_target_is_nhwc(const pipe_chain *chain);
/* Wires the end of the chain to a named input of the model, which is none any longer; false: there is no such input. */
INLAY_NODISCARD inlay_status pipe_feed(pipe_chain *chain, const char *input, uint32_t value, inlay_dtype dtype,
                                       bool *out_found);

#define PIPE_DOMAIN "inlay.prepost"
#define PIPE_EXTENSIONS "com.microsoft.extensions"
#endif
