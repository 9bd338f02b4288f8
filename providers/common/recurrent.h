/* recurrent.h - LSTM, GRU and RNN: what preparing a layer, planning it and running it share.
 *
 * A layer is cut into *units*, each a direction of some samples. A unit goes through its steps a stretch at a time: the
 * input's share of all gates of the stretch, X * W' + bias, then step by step H * R' and the gates' functions. Both
 * products are of few rows and use panels (panels.h), whose blocks hold the gates of the same units of the hidden state
 * side by side; rows are reached by pointers, so a step reads and writes the node's own tensors where it can, and
 * samples that have ended drop out. Where there are threads left, they share a step by panels. */
#ifndef RECURRENT_H
#define RECURRENT_H
#include "inlay/kit.h"
#include "panels.h"

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

/* The weights of a direction, packed. All float, or all double. */
typedef struct recurrent_weights {
    void *weights;   /* panels of W */
    void *r;         /* of R; in a GRU without linear_before_reset, of gates z and r */
    void *candidate; /* of a GRU without linear_before_reset: gate h of R */
    void *bias;      /* row of W's panels: Wb + Rb */
    void *bias_r;    /* row of R's: Rbh of a GRU with linear_before_reset, otherwise zeros */
    void *peephole;  /* i, o, f, a row of blocks each */
} recurrent_weights;

typedef struct recurrent_layout {
    struct panels panels, r, candidate; /* candidate: blocks of one gate, also the room of a row of the hidden state */
    uint64_t w_at, r_at, candidate_at, bias_at, bias_r_at, peephole_at, bytes; /* of the weights of a direction */
} recurrent_layout;

typedef struct recurrent_state {
    uint32_t cell, functions;
    uint32_t gates;
    uint32_t direction;              /* 0 forward, 1 reverse, 2 bidirectional */
    struct activation activation[6]; /* functions of a direction, then of the other */
    bool clips, input_forget, linear_before_reset;
    bool plain; /* the functions are the defaults */
    bool wide;  /* computes in double */
    double clip;
    int64_t layout;
    panels_fn product;
    kit_pack pack; /* weights that are constant; none: packed in each run */
    recurrent_weights constant[2];
} recurrent_state;

typedef struct recurrent_plan {
    int64_t steps, batch, inputs, hidden, directions;
    recurrent_layout weights;
    int64_t units, rows; /* units of a direction; samples of one, the last may have fewer */
    int64_t stretch;     /* rows of a projection at most, or one step's */
    bool shared;         /* threads share the panels of a step, not units */
    bool alone;          /* too little for more than the calling thread */
    double ns;           /* about what a run takes */
    /* Workspace: weights of each direction unless constant, then a room for each unit; where its parts are. */
    uint64_t weights_bytes, room_bytes;
    uint64_t x_at, projected_rows_at, old_at, new_at, gates_rows_at, reset_rows_at, h_rows_at, c_rows_at, order_at,
        projected_at, gates_at, candidate_at, h_at, c_at, reset_at, input_at, zeros_at;
} recurrent_plan;

/* Sizes of the packed weights; false: they overflow. */
bool recurrent_lay_out(const recurrent_state *state, int64_t inputs, int64_t hidden, recurrent_layout *out);
/* Where the weights of a direction are in `room`, out->bytes of a layout. */
recurrent_weights recurrent_weights_at(const recurrent_layout *layout, void *room);
/* Packs the weights of direction d. tensors: W, R, B and P as whole tensors; B and P may have data NULL. */
void recurrent_pack(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *weights,
                    const kit_tensor *tensor, const kit_tensor *b, const kit_tensor *p, int64_t d,
                    const recurrent_weights *to);

/* Of these, one matrix in panels (input: IN_W; or IN_R, with what a GRU's candidate reads behind it), and the rest. */
void recurrent_pack_matrix(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *tensor,
                           uint32_t input, int64_t d, void *to);
void recurrent_pack_vectors(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *tensor,
                            const kit_tensor *p, int64_t d, const recurrent_weights *to);
/* Bytes of such a matrix. */
uint64_t recurrent_panel_bytes(const recurrent_layout *layout, uint32_t input);
/* What decides how matrices of a layer of floats are packed; false: there is no such layer. */
bool recurrent_describe(const char *op_type, bool linear_before_reset, recurrent_state *out);

/* Panels that are not of floats: what multiplies by them, and what that is handed for each direction: of W, or of R;
 * and of what a GRU's candidate reads. */
typedef struct recurrent_matrix {
    panels_fn product;
    const void *packed[2], *candidate[2];
} recurrent_matrix;

/* kit_kernel.run. W and R of one axis come in panels, those of all directions one after the other; those of no axis are
 * a recurrent_matrix each. */
inlay_status recurrent_run(const kit_call *call);

/* LSTM, GRU and RNN, for the tables of providers. */
enum { RECURRENT_KERNELS = 3 };
extern const kit_kernel recurrent_kernels[RECURRENT_KERNELS];
#endif
