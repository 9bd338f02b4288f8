/* formats/gguf_builder.h - writes the graph of a GGUF file, part by part. After a failure, which is gguf->status, the
 * functions write nothing more, or what nobody reads. */
#ifndef FORMATS_GGUF_BUILDER_H
#define FORMATS_GGUF_BUILDER_H
#include "formats/gguf.h"

enum {
    MAX_LAYERS = 1024,
    MAX_HEADS = 4096,
    MAX_EXPERTS = 4096,
    MAX_CONTEXT = 1 << 30,
    MAX_HEAD_SIZE = 4096,
    TEXT = 4 * GGUF_NAME
};

/* Layers that see only a window of tokens. */
struct windows {
    int64_t pattern;      /* if the file has no pattern: every layer but each pattern-th one has a window */
    int64_t size;         /* if the file states none; 0: all layers see all tokens */
    int64_t model_layers; /* only models with this number of layers have windows; 0: all models */
    double base;      /* of the angles of positions in these layers, if the file states none; 0: that of all layers */
    bool only_rotary; /* if some layers have a window, only those layers rotate */
    bool unscaled;    /* these layers rotate without scaling */
};

/* How queries and keys rotate by their positions. */
struct rotary {
    bool halves;        /* the halves of a head rotate, not pairs of neighbours */
    bool pairs;         /* pairs rotate, also of a part of a head; no converter permutes rows */
    bool image_places;  /* positions of images have a row and a column, in sections of the pairs of a head */
    bool alternates;    /* and time, row and column alternate in the pairs */
    int64_t still_step; /* each still_step-th layer does not rotate; 0: all layers rotate */
};

/* Layers with a state instead of attention, or beside it: gguf_delta.h. */
struct recurrent {
    bool delta;      /* most layers have the delta rule, and attention has gates */
    bool tiles_keys; /* value heads of the delta rule share the key heads in turns, not as neighbours */
    bool gaps;       /* layers without heads of keys have a short convolution, or a state */
    bool mamba;      /* these layers are those of Mamba 2 */
    bool parallel;   /* each layer has a state beside its attention */
};

/* What an architecture does beyond attention with rotary positions and a gated feed-forward network. Biases, norms of
 * queries and keys, and fused weights show in the tensors of the file. */
struct architecture {
    const char *name;
    enum { GGUF_IS_DECODER, GGUF_IS_ENCODER, GGUF_IS_VISION } kind;
    struct rotary rotary;
    struct windows windows;
    struct recurrent recurrent;
    unsigned readers;       /* keys that it reads besides those of all; bits of enum gguf_readers */
    bool gelu;              /* the gate is GELU (tanh), not SiLU */
    bool scales_embeddings; /* by the square root of their size */
    int64_t wide_layers;    /* a model with so many layers scales attention by its width instead of its head size */
    bool experts;           /* layers may have experts */
    bool keeps_shares;      /* experts are weighted by the softmax over all experts, not over the chosen ones */
    bool oai;               /* experts have biases, and SwiGLU with a limit */
    bool minicpm;           /* has scales of its own where the file has none */
    bool norms_after;       /* the parts of a layer have a norm behind them only */
    bool next_norm;         /* post_attention_norm is the norm before the feed-forward network */
    bool alibi;             /* an encoder whose attention falls with the distance of tokens, without positions */
    bool ranks;             /* a decoder whose last token may say how well two texts match */
    bool latent;            /* gguf_latent.h */
    bool cohere;            /* norms subtract the mean; attention and the network of a layer read the same norm */
    bool llama4;            /* unit queries and keys where they rotate, experts in some layers; see gguf_experts.c */
    bool both_ways;         /* tokens see later ones, too; makes embeddings */
    bool whole_images;      /* the rows of an image see each other */
    bool altup;             /* gguf_altup.h */
    double logit_cap;       /* final_logit_softcapping if the file has none; 0: none */
};

/* Sizes of layers with the gated delta rule, or with a short convolution alone. */
struct delta {
    int64_t taps;                       /* of the convolution */
    int64_t keys, values;               /* heads */
    int64_t size;                       /* of a head */
    int64_t rows;                       /* of a state of Mamba 2; its columns are a head's */
    int64_t step;                       /* each step-th layer has attention, if the file has no list */
    const struct gguf_value *recurrent; /* of the layers with the delta rule, or heads of keys of layers; NULL: none */
};

/* Sizes of latent attention. */
struct latent {
    int64_t rank, queries;       /* of the latent, and of that of queries; queries 0: they have none */
    int64_t key, turning, value; /* of a head of queries, of its part that rotates, and of values */
    bool joined;                 /* the matrices of keys and values are one tensor, as in older files */
};

/* Sizes of the mixtures of experts. */
struct mixture {
    int64_t count, used,
        hidden;            /* experts of a layer, those of a token, and their rows; count 0: no layer has experts */
    int64_t shared_hidden; /* rows of the network that all tokens use */
    int64_t groups, groups_used; /* experts of other groups are not chosen; groups 0 or 1: there are none */
    int64_t dense_layers;        /* the first ones, which have no experts */
    int64_t step;                /* each step-th layer has experts; 0: none has */
    bool sigmoid;                /* the router weighs experts by it, not by the softmax */
    bool keeps_shares;           /* as of the architecture */
    double share_scale;          /* of the sum of the experts; 0: none */
};

struct scales {
    double residual, attention, embedding, logit;
    double attention_cap, logit_cap; /* 0: none */
};

/* The rows of an image in a text. */
struct image_rows {
    const char *begin, *end; /* of a vision part: texts of the tokens around the rows; NULL or "": none */
    bool whole;              /* they must be in one run, because they see each other */
};

struct builder {
    struct gguf *gguf;
    const struct architecture *architecture;
    struct wire *out;
    int64_t width, layers, heads, key_heads, head_size, hidden, context, window;
    const struct gguf_value *pattern; /* of the layers that see a window only; NULL: that of the architecture */
    bool has_local_base;              /* these layers turn by other angles */
    bool embeds;                      /* the output is the hidden states, and there are no states */
    bool turns;                       /* queries and keys, by their positions */
    bool sparse;                      /* the gate of the network keeps its largest elements only */
    float epsilon;
    double temperature;   /* of queries, which grows with their position; 0: none */
    int64_t image_layers; /* the first layers, to whose outputs an image adds a part of its rows each */
    struct mixture mixture;
    struct delta delta;
    struct latent latent;
    struct scales scales;
    struct image_rows image;
    char stream[TEXT], pending[TEXT]; /* the hidden states, and what is still to be added to them; "": nothing */
};

/* Fails unless a failure is known; text: followed by `which` in quotation marks. */
void gguf_builder_refuse(struct builder *b, inlay_status status, const char *text, const char *which);
/* The file has no tensor of this name, or it has another shape than the graph needs. */
void gguf_builder_refuse_tensor(struct builder *b, const char *name);
/* Writes a node without attributes: "input input -> output". */
INLAY_PRINTF(3, 4) void gguf_builder_node(struct builder *b, const char *op, const char *format, ...);
/* The same with one attribute, a whole number (or "name=text"). Inputs and outputs are separated by spaces. */
void gguf_builder_node_of(struct builder *b, const char *op, const char *inputs, const char *outputs,
                          const char *attribute, int64_t number);
/* Nodes and constants: see onnx_program(). */
void gguf_builder_program(struct builder *b, const char *program, const char *name);
/* Constants: a program in which each # stands for the next of the numbers. */
void gguf_builder_numbers(struct builder *b, const char *program, const int64_t *numbers);
/* Parts along the last axis, of the sizes that a constant has. outputs: separated by spaces. */
void gguf_builder_split(struct builder *b, const char *input, const char *sizes, const char *outputs);
/* The tensor, or NULL after a failure. columns, rows: its shape; rows 0: a vector. */
struct gguf_tensor *gguf_builder_tensor(struct builder *b, const char *name, int64_t columns, int64_t rows);
bool gguf_builder_has(struct builder *b, const char *name);
/* A vector of floats as an initializer of its own name. */
void gguf_builder_vector(struct builder *b, const char *name, int64_t count);
void gguf_builder_scalar(struct builder *b, const char *name, double value);
/* A vector of whole numbers. */
void gguf_builder_list(struct builder *b, const char *name, const int64_t *values, int64_t count);
/* output = input x rows [first, first + count) of PREFIX.weight, times PREFIX.scale [1], plus PREFIX.bias, if the file
 * has them. all: the rows of the tensor. */
void gguf_builder_linear(struct builder *b, const char *prefix, int64_t columns, int64_t all, int64_t first,
                         int64_t count, const char *input, const char *output);
/* output = the RMS normalization of the input, with a weight of `size` elements. */
void gguf_builder_rms_norm(struct builder *b, const char *weight, int64_t size, const char *input, const char *output);
/* output = the layer normalization of the input, with NORM.weight and NORM.bias of `size` elements. */
void gguf_builder_layer_norm(struct builder *b, const char *norm, int64_t size, const char *input, const char *output);
/* output = down(activation(gate(x)) * up(x)), with the weights LAYERffn_gateSUFFIX and so on of `hidden` rows. A fused
 * up has the rows of the gate first. */
void gguf_builder_gated_network(struct builder *b, const char *layer, const char *suffix, int64_t hidden,
                                const char *input, const char *output);
/* output = queries or keys, rotated by ANGLES.cos and ANGLES.sin. row: the row of these for each token. pairs:
 * neighbours rotate, not the halves of a head. */
void gguf_builder_turn(struct builder *b, const char *row, const char *angles, int64_t heads, bool pairs,
                       const char *input, const char *output);
/* output = the input + the part, which is multiplied by the vector SCALE.weight if the file has it. */
void gguf_builder_add_scaled(struct builder *b, const char *scale, const char *input, const char *part,
                             const char *output);
/* LAYEROUTPUT.sum = the input + the product of the attention of LAYERattn_q, attn_k and attn_v, by
 * gguf_builder_add_scaled() with the scale LAYERls1. All tokens see each other, or those of the key mask only; NULL:
 * none. */
void gguf_builder_attention(struct builder *b, const char *layer, const char *mask, const char *input,
                            const char *output);
/* The name of the hidden states, to which what is pending is added; that sum gets the name `output`. */
const char *gguf_builder_stream(struct builder *b, const char *output);
/* The last position of each text and the length of the longest, from the attention mask. */
void gguf_builder_lengths(struct builder *b);
/* How many positions the angles stretch to one, by the key or keys for that; 1: they do not. */
double gguf_builder_stretch(struct builder *b);
/* The angles by which queries and keys rotate, and their positions. */
void gguf_builder_rotary(struct builder *b);
/* A size of the file, which must be between 1 and `most`. */
int64_t gguf_builder_size(struct builder *b, enum gguf_key key, int64_t most);
int64_t gguf_builder_size_or(struct builder *b, enum gguf_key key, int64_t otherwise, int64_t most);

#endif
