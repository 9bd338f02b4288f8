/* texts/grammar/grammar.h - languages of texts, and which bytes may continue a text of one.
 *
 * A grammar is a set of rules over bytes, which may refer to each other and to themselves. It is built of expressions:
 *
 *     grammar = grammar_create();
 *     digit = grammar_chars(grammar, '0', '9');
 *     grammar_define(grammar, grammar_rule(grammar), grammar_repeat(grammar, digit, 1, GRAMMAR_MANY));
 *
 * The first rule is the language. grammar_finish() makes a program of the expressions, whose states are sets of
 * positions with their return addresses. A machine walks through them; each state is made when a text first reaches it,
 * and its transitions are kept. This is the lazy construction of a deterministic automaton, with a stack for
 * rules that refer to themselves. */
#ifndef TEXTS_GRAMMAR_H
#define TEXTS_GRAMMAR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;
typedef uint32_t grammar_node; /* an expression */

#define GRAMMAR_MANY UINT32_MAX
#define GRAMMAR_DEAD UINT32_MAX /* the state of a text that no text of the language begins with */

enum {
    GRAMMAR_WHY_BYTES = 200,
    GRAMMAR_STEPS = 1 << 25, /* of a construction: about a second */
    GRAMMAR_BYTES = 1 << 25  /* of its graphs and states */
};

/* A construction is bounded: by a number of expressions, rules and bytes, and by GRAMMAR_STEPS. It ends at the first
 * limit that is exceeded, or when memory runs out: then the functions below do nothing, and what makes expressions
 * returns 0, which is no expression. grammar_finish() says why. NULL is a grammar that has ended. */
struct grammar *grammar_create(void);
void grammar_destroy(struct grammar *grammar); /* NULL is a no-op */

/* Whether the construction has ended; why (GRAMMAR_WHY_BYTES bytes, may be NULL) says at which limit. */
bool grammar_has_ended(const struct grammar *grammar, char *why);
/* Counts steps, each as much work as an expression. false: the construction has ended. */
bool grammar_spend(struct grammar *grammar, uint64_t steps);
/* Counts bytes of graphs, states, frames, and of what the caller keeps. false: they are too many, which ends the
 * construction. */
bool grammar_take(struct grammar *grammar, size_t bytes);
/* The steps so far, at most GRAMMAR_STEPS. */
uint64_t grammar_spent(const struct grammar *grammar);

grammar_node grammar_empty(struct grammar *grammar);
/* A single byte from low to high. */
grammar_node grammar_byte(struct grammar *grammar, uint8_t low, uint8_t high);
/* A character from low to high, as UTF-8. */
grammar_node grammar_chars(struct grammar *grammar, uint32_t low, uint32_t high);
/* The bytes of a text. */
grammar_node grammar_text(struct grammar *grammar, const char *text, size_t bytes);
/* One of the texts, whose order changes. */
typedef struct grammar_word {
    const char *text; /* [bytes] */
    size_t bytes;
} grammar_word;
grammar_node grammar_words(struct grammar *grammar, grammar_word *words, size_t count);
grammar_node grammar_sequence(struct grammar *grammar, grammar_node first, grammar_node second);
/* Nothing at all, to start a list of alternatives with. */
grammar_node grammar_never(struct grammar *grammar);
/* Whether the expression is that of grammar_never(). */
bool grammar_is_never(const struct grammar *grammar, grammar_node which);
grammar_node grammar_either(struct grammar *grammar, grammar_node first, grammar_node second);
grammar_node grammar_repeat(struct grammar *grammar, grammar_node repeated, uint32_t least, uint32_t most);

/* The texts that lead from state 0 to a state that accepts. The arrays are copied. */
typedef struct grammar_edge {
    uint32_t from, to;
    uint8_t low, high; /* a byte from low to high */
} grammar_edge;
grammar_node grammar_graph(struct grammar *grammar, const bool *accepts, uint32_t state_count,
                           const grammar_edge *edges, uint32_t edge_count);

/* The texts that are of each expression of `with` and of none of `without`, in grammar_product.c. Expressions may refer
 * only to rules that are defined. false: there are too many states, or memory ran out; `why` says which. */
bool grammar_product(struct grammar *grammar, const grammar_node *with, uint32_t with_count,
                     const grammar_node *without, uint32_t without_count, grammar_node *out, char *why);

/* A new rule, which can be referred to before it is defined. The first one is the language. */
uint32_t grammar_rule(struct grammar *grammar);
void grammar_define(struct grammar *grammar, uint32_t rule, grammar_node value);
grammar_node grammar_refer(struct grammar *grammar, uint32_t rule);
/* A rule for an expression that is used in several places; small expressions need no rule. */
grammar_node grammar_share(struct grammar *grammar, grammar_node node);

/* Ends the construction. false: `why` (GRAMMAR_WHY_BYTES bytes) says why the grammar cannot be used. */
bool grammar_finish(struct grammar *grammar, char *why);

/* A grammar of the same texts as a finished one, whose states are not copied; NULL: out of memory. Any thread, while
 * the other is not used. */
struct grammar *grammar_copy(const struct grammar *grammar);
/* Bytes of such a copy. */
size_t grammar_bytes(const struct grammar *grammar);

/* A finished grammar of one expression of an unfinished one, which must outlive it and gets no expression while it is
 * used; NULL: as in grammar_product(). */
struct grammar *grammar_part(struct grammar *grammar, grammar_node which);

/* The work of its machine so far, in positions of states. */
uint32_t grammar_work(const struct grammar *grammar);
/* Bytes of a class lead from each state to the same one. */
uint8_t grammar_class(const struct grammar *grammar, uint8_t byte);

/* The state of the empty text; GRAMMAR_DEAD: a part has no text. */
uint32_t grammar_start(const struct grammar *grammar);
/* The state after state `index` and one more byte; GRAMMAR_DEAD: there is none. */
uint32_t grammar_next(struct grammar *grammar, uint32_t index, uint8_t byte);
/* Whether the text that leads to the state is of the language. */
bool grammar_accepts(const struct grammar *grammar, uint32_t state);
/* Memory ran out, or the states of the texts take more memory or time than they may: from here on all are dead. */
bool grammar_failed(const struct grammar *grammar);
/* A pointer of the caller's for a state, from malloc(): NULL if it was not set, or was freed because many others were.
 * All are freed with the grammar. */
void *grammar_user(const struct grammar *grammar, uint32_t state);
/* Sets the pointer of a state that has none. */
void grammar_set_user(struct grammar *grammar, uint32_t state, void *user);
#endif
