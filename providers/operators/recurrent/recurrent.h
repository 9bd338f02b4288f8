/* recurrent.h - LSTM, GRU and RNN: declarations for preparing, planning and running a layer.
 *
 * A layer is divided into *units*, each one direction of some samples. A unit processes its steps in chunks of steps
 * (`chunk_rows`): first the input projection X * W' + bias of all gates of the chunk, then step by step H * R' and the
 * gate functions. Both are multiplications of few rows by panels (panels.h), whose blocks interleave the gates of the
 * same hidden units. Rows are reached by pointers, so a step reads and writes the node's tensors directly where
 * possible, and samples that have ended are skipped. If threads are left over, they share the panels of each step. */
#ifndef RECURRENT_H
#define RECURRENT_H
#include "inlay/kit_table.h"
#include "operators/panels.h"

enum { CELL_RNN, CELL_GRU, CELL_LSTM };
enum {
    ACT_TANH,
    ACT_SIGMOID,
    ACT_RELU,
    ACT_AFFINE,
    ACT_LEAKY_RELU,
    ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH,
    ACT_HARD_SIGMOID,
    ACT_ELU,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS,
    ACT_COUNT
};
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P, OUT_Y = 0, OUT_H = 1, OUT_C = 2 };

struct activation {
    uint32_t kind;
    double alpha, beta;
};

/* The packed weights of a direction, all float or all double. */
typedef struct recurrent_weights {
    void *weights;   /* panels of W */
    void *r;         /* panels of R; in a GRU without linear_before_reset, only those of gates z and r */
    void *candidate; /* GRU without linear_before_reset: panels of gate h of R */
    void *bias;      /* bias in the layout of W's panels: Wb + Rb, without the part in bias_r */
    void *bias_r;    /* bias in the layout of R's panels: Rb of a GRU with linear_before_reset, otherwise zeros */
    void *peephole;  /* gates i, o, f, one row of blocks each */
} recurrent_weights;

typedef struct recurrent_layout {
    /* Of W, R, and the candidate matrix. A row of the hidden state has the layout of a row of `candidate`. */
    struct panels panels, r, candidate;
    /* Offsets and size of the weights of a direction. */
    uint64_t w_at, r_at, candidate_at, bias_at, bias_r_at, peephole_at, bytes;
} recurrent_layout;

typedef struct recurrent_state {
    uint32_t cell, functions; /* CELL_*; number of activations of a direction */
    uint32_t gates;
    uint32_t direction;              /* 0 forward, 1 reverse, 2 bidirectional */
    struct activation activation[6]; /* functions of the first direction, then of the second */
    bool has_clip, input_forget, linear_before_reset;
    bool plain; /* all activations are the defaults */
    bool wide;  /* computes in double */
    double clip;
    int64_t layout;
    panels_fn product;
    panels_rates rates; /* for the division among threads */
    kit_pack pack;      /* constant weights; empty: packed in each run */
    recurrent_weights constant[2];
} recurrent_state;

/* Offsets in the block of a unit. */
struct recurrent_offsets {
    uint64_t x, projected_rows, old, new, gates_rows, reset_rows, h_rows, order, projected, gates, candidate, h, c,
        reset, input, zeros;
};

typedef struct recurrent_plan {
    int64_t steps, batch, inputs, hidden, directions;
    recurrent_layout weights;
    int64_t units, rows;      /* units per direction; samples per unit, the last may have fewer */
    int64_t chunk_rows;       /* maximum rows of an input projection, at least the rows of one step */
    bool shared;              /* threads share the panels of each step; otherwise they run units concurrently */
    bool calling_thread_only; /* too little work for more than the calling thread */
    double ns;                /* estimated time of a run */
    /* Workspace: weights of each direction unless constant, then one block per unit. */
    uint64_t weights_bytes, unit_bytes;
    struct recurrent_offsets at;
} recurrent_plan;

/* Reads the attributes of LSTM-22, GRU-22 and RNN-22. state->cell becomes that of the node's op_type; for others it is
 * the caller's. Fails on unknown names. */
inlay_status recurrent_read_attributes(const kit_node *node, recurrent_state *state, inlay_diag *diag);

/* Computes the layout of the packed weights; false: sizes overflow. */
bool recurrent_compute_layout(const recurrent_state *state, int64_t inputs, int64_t hidden, recurrent_layout *out);
/* The weights of a direction in `room`, which has layout->bytes. */
recurrent_weights recurrent_weights_at(const recurrent_layout *layout, void *room);
/* Packs the weights of direction d. w, r, b and p are the tensors W, R, B and P of all directions; b and p may have
 * data NULL. */
void recurrent_pack(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *w,
                    const kit_tensor *r, const kit_tensor *b, const kit_tensor *p, int64_t d,
                    const recurrent_weights *to);

/* The two parts of recurrent_pack(). recurrent_pack_matrix() packs W (input IN_W) or R (IN_R; the candidate matrix of a
 * GRU follows it) in panels. recurrent_pack_vectors() packs the biases and peepholes. */
void recurrent_pack_matrix(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *tensor,
                           uint32_t input, int64_t d, void *to);
void recurrent_pack_vectors(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *b,
                            const kit_tensor *p, int64_t d, const recurrent_weights *to);
/* The size in bytes of a matrix that recurrent_pack_matrix() packs. */
uint64_t recurrent_panel_bytes(const recurrent_layout *layout, uint32_t input);
/* Sets the fields that determine the packed layout of a float layer; false: op_type is not recurrent. */
bool recurrent_read_cell(const char *op_type, bool linear_before_reset, recurrent_state *out);

/* Weights in another format than float panels: their multiplication function, and the data that this function gets for
 * each direction: of W or R, and of the candidate matrix of a GRU. */
typedef struct recurrent_matrix {
    panels_fn product;
    const void *packed[2], *candidate[2];
} recurrent_matrix;

/* Input projections that the caller has computed for a float layer whose weights are packed: for each direction
 * X * W' + bias, with a row for each row of X, in the order of X. A row has plan.weights.panels.stored elements. */
typedef struct recurrent_projected {
    float *rows[2];
} recurrent_projected;

/* kit_kernel.run. W and R of rank 1 contain panels of all directions consecutively; W and R of rank 0 point to a
 * recurrent_matrix each, or W to a recurrent_projected if prepare has packed the weights. */
inlay_status recurrent_run(const kit_call *call);

/* LSTM, GRU and RNN, for the kernel tables of providers. */
enum { RECURRENT_KERNELS = 3 };
extern const kit_kernel recurrent_kernels[RECURRENT_KERNELS];
#endif
