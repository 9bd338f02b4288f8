/* pipe/pipe_parts.h - shared by the steps of pipe.h. */
#ifndef PIPE_PIPE_PARTS_H
#define PIPE_PIPE_PARTS_H
#include "base/memory.h"
#include "pipe/pipe.h"

/* The kind of the value at the end of the chain. */
typedef enum pipe_kind { PIPE_NOTHING, PIPE_PICTURE, PIPE_NUMBERS, PIPE_SOUND, PIPE_DONE } pipe_kind;

enum { PIPE_MAX_WORDS = 16 };
typedef struct pipe_chain {
    graph_model *model;
    struct graph *graph;
    inlay_diag *diag;
    const pipe_request *request;
    uint32_t value;    /* the end of the chain; INLAY_NONE: the chain is empty */
    graph_node *maker; /* node that computes the value, or NULL */
    pipe_kind kind;
    int64_t sides[2];            /* height and width of the picture; 0: unknown */
    bool post;                   /* the steps follow the model */
    uint32_t target;             /* pre: the input of the model. post: its output */
    uint32_t place;              /* output of letterbox that boxes reads: the picture's position; or INLAY_NONE */
    const char *step;            /* the text of the step */
    char *words[PIPE_MAX_WORDS]; /* words of the step, separated by colons; the first is its name */
    uint32_t word_count;
    const char *makes;                 /* name for the values of the step */
    bool used[PIPE_MAX_WORDS];         /* [word_count] the step has read the word */
    uint32_t outputs[8], output_count; /* post: values that replace the model's output */
} pipe_chain;

typedef struct pipe_step {
    const char *name, *makes; /* makes: name for the step's values */
    bool pre, post;
    inlay_status (*add)(pipe_chain *chain);
} pipe_step;
extern const pipe_step pipe_text_steps[], pipe_picture_steps[]; /* each ends with a NULL name */

/* Fails with "step 'resize:0': text". */
INLAY_PRINTF(2, 3) inlay_status pipe_fail(pipe_chain *chain, const char *format, ...);
/* The value of word "name=..."; NULL: none. */
const char *pipe_option(pipe_chain *chain, const char *name);
/* Whether there is a word equal to the name. */
bool pipe_flag(pipe_chain *chain, const char *name);
/* The next word without "=" that was not used yet; NULL: none. */
char *pipe_word(pipe_chain *chain);
/* The integer of an option, or default_value. */
INLAY_NODISCARD inlay_status pipe_int(pipe_chain *chain, const char *name, int64_t default_value, int64_t min,
                                      int64_t max, int64_t *out);
INLAY_NODISCARD inlay_status pipe_float(pipe_chain *chain, const char *name, double default_value, double *out);
/* "224" or "224x320": height and width; a missing one is 0. */
INLAY_NODISCARD inlay_status pipe_size(pipe_chain *chain, const char *text, int64_t out[2]);
/* Reads a file as a NUL-terminated text that the model owns. */
INLAY_NODISCARD inlay_status pipe_file(pipe_chain *chain, const char *path, inlay_str *out);
/* The lines of a text, whose last one may lack its line feed. */
int64_t pipe_count_lines(inlay_str text);

/* Adds a value; name NULL: the step's name. A number is appended to a name that is in use. INLAY_NONE after a failure.
 */
uint32_t pipe_value(pipe_chain *chain, const char *name);
/* Appends an operator that reads the end of the chain; its output is the new end. */
INLAY_NODISCARD inlay_status pipe_node(pipe_chain *chain, const char *domain, const char *op, graph_node **out);
/* Adds an input to the model as the end of the chain. dims: -1 for symbolic sizes, called names[i]. */
INLAY_NODISCARD inlay_status pipe_input(pipe_chain *chain, const char *name, inlay_dtype dtype, uint32_t rank,
                                        const int64_t *dims, const char *const *names);
/* Adds a value to the outputs that replace the model's output; declares dtype and rank, but no sizes. */
INLAY_NODISCARD inlay_status pipe_output(pipe_chain *chain, uint32_t value, inlay_dtype dtype, uint32_t rank);
/* The declared rank of the target (INLAY_RANK_UNKNOWN), and its size along an axis (-1 = symbolic). */
uint32_t pipe_target_rank(const pipe_chain *chain);
int64_t pipe_target_size(const pipe_chain *chain, uint32_t axis);
/* Height and width of the target, a picture, if they are declared; 0 otherwise. */
void pipe_target_sides(const pipe_chain *chain, int64_t out[2]);
/* Whether the last axis of the target has the channels. */
bool pipe_target_is_nhwc(const pipe_chain *chain);
/* Replaces a named input of the model by `value`, cast if necessary; *out_found is false if there is no such input. */
INLAY_NODISCARD inlay_status pipe_feed(pipe_chain *chain, const char *input, uint32_t value, inlay_dtype dtype,
                                       bool *out_found);

/* Sets a string attribute with any bytes. */
INLAY_NODISCARD inlay_status pipe_text_attr(pipe_chain *chain, graph_node *node, const char *name, inlay_str text);
/* The step boxes. */
inlay_status pipe_boxes(pipe_chain *chain);
#endif
