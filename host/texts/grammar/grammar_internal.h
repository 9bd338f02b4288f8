/* texts/grammar/grammar_internal.h - a grammar: its expressions (grammar.c), and the program and the machine that are
 * made of them (grammar_machine.c). */
#ifndef TEXTS_GRAMMAR_INTERNAL_H
#define TEXTS_GRAMMAR_INTERNAL_H
#include "texts/grammar/grammar.h"
#include "base/strbuf.h"
#include <uthash.h>

typedef enum node_kind {
    NODE_EMPTY,
    NODE_NEVER,
    NODE_BYTE,
    NODE_TEXT,
    NODE_SEQUENCE,
    NODE_EITHER,
    NODE_REPEAT,
    NODE_RULE,
    NODE_GRAPH
} node_kind;

typedef struct grammar_expression {
    node_kind kind;
    uint32_t first,
        second; /* nodes; RULE, GRAPH: first is the rule or the graph; BYTE: the range; TEXT: where its bytes
                               begin and end; REPEAT: first is the node */
    uint32_t least, most;
} grammar_expression;

/* The states and edges of grammar_graph(). */
typedef struct state_graph {
    bool *accepts; /* [state_count] */
    grammar_edge *edges;
    uint32_t state_count, edge_count;
} state_graph;

/* A step of the program. Step 0 is the end of a rule. */
typedef enum step_kind { STEP_RETURN, STEP_BYTE, STEP_SPLIT, STEP_CALL } step_kind;

typedef struct program_step {
    step_kind kind;
    uint8_t low, high; /* BYTE */
    uint32_t next;     /* SPLIT: one of two */
    uint32_t other;    /* SPLIT: the second; CALL: the rule */
} program_step;

/* A return address, and the frame to continue with after it. Equal frames are one. */
typedef struct frame_key {
    uint32_t step, parent;
} frame_key;

typedef struct call_frame {
    frame_key key;
    uint32_t index, depth;
    UT_hash_handle hh;
} call_frame;

typedef struct machine_position {
    uint32_t step, frame; /* a BYTE; frame 0: none */
} machine_position;

typedef struct machine_state {
    machine_position *positions; /* [count], ordered; the key of the table */
    uint32_t count, index;
    bool accepts;
    void *user;
    UT_hash_handle hh;
    uint32_t next[]; /* [class_count] 0: unknown; else 1 + the state, or GRAMMAR_DEAD */
} machine_state;

typedef struct grammar_program {
    program_step *steps; /* [step_count] */
    uint32_t step_count;
    uint32_t *byte_steps; /* [byte_room] a table of the BYTE steps by hash, while they are made; 0: none here */
    uint32_t byte_count, byte_room;
    uint8_t class_of[256]; /* bytes that no step tells apart have a class, in the order of the bytes */
    uint32_t class_count;
} grammar_program;

/* A state that is being made. */
typedef struct growing_state {
    machine_position *work; /* [work_count] its positions, and those that are not followed yet */
    uint32_t work_count, work_room;
    uint32_t *seen; /* [seen_room] a table of positions by hash: the round in which one was added here */
    machine_position *seen_positions;
    uint32_t seen_room, seen_count, round;
    bool accepts;
} growing_state;

/* The states that texts have reached, and the frames of their calls of rules; shared by all users of a grammar. */
typedef struct grammar_machine {
    call_frame *frame_table, **frames; /* [frame_count], from 1 */
    uint32_t frame_count;
    machine_state *state_table, **states; /* [state_count] */
    uint32_t state_count;
    growing_state growing;
    uint32_t work_done;
    uint32_t user_count;
    bool failed;
} grammar_machine;

struct grammar {
    grammar_expression *nodes;
    uint32_t node_count;
    struct strbuf texts; /* of the TEXT nodes */
    state_graph *graphs; /* [graph_count] */
    uint32_t graph_count;
    uint32_t nesting; /* of compile() */
    uint32_t *rules;  /* [rule_count] nodes; later their first steps */
    uint32_t rule_count;
    grammar_program program;
    struct grammar *owner; /* of a part: whose expressions, graphs, steps and bytes it takes; NULL: it is no part */
    uint64_t spent;        /* see grammar_spend() */
    size_t bytes;          /* see grammar_take(); those of its parts, too */
    const char *limit;     /* at which the construction ended; NULL: at none */
    bool no_memory, finished;
    bool is_empty; /* of grammar_part(): there is no text */

    grammar_machine machine;
};

/* Ends the construction with the limit as the reason, "more than ...", unless it has ended. */
void grammar_stop(struct grammar *grammar, const char *limit);
#endif
