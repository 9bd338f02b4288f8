/* formats/gguf.h - GGUF, the format of llama.cpp: language models with their tokenizer.
 *
 * A file has key-value pairs, a table of tensors, and their data, little-endian throughout. The architecture is a key;
 * its graph is built here (gguf_graph.c) from operators that exporters use: MatMulNBits, GroupQueryAttention,
 * SimplifiedLayerNormalization. The model has the inputs and outputs of a decoder as Optimum exports it, and as
 * properties the files that Optimum puts beside it: tokenizer.json, tokenizer_config.json, config.json. Codes of
 * weights stay as they are in the file; a tensor, key or type that is not understood is refused by name. */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H
#include "base/strbuf.h"
#include "kit/blocks.h"
#include "inlay/types.h"
#include "model/format.h"

bool gguf_is_file(const uint8_t *bytes, size_t count);
INLAY_NODISCARD inlay_status gguf_read_adapter(const format_file *file, format_adapter *out, inlay_diag *diag);

/* The rest is shared by the files of the format. */

/* Types of values. */
enum {
    GGUF_UINT8,
    GGUF_INT8,
    GGUF_UINT16,
    GGUF_INT16,
    GGUF_UINT32,
    GGUF_INT32,
    GGUF_FLOAT32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_UINT64,
    GGUF_INT64,
    GGUF_FLOAT64,
    GGUF_TYPES
};

struct gguf_text {
    const char *data; /* without a NUL */
    size_t bytes;
};

struct gguf_value {
    struct gguf_text key;
    uint32_t type, item_type; /* item_type: of an array */
    uint64_t count;           /* items of an array; otherwise 1 */
    const uint8_t *data;      /* [bytes] of the value or of all items */
    size_t bytes;
    bool used;
};

/* The file, or one of those in which llama.cpp splits a model. */
struct gguf_part {
    const uint8_t *bytes;
    size_t count;
    const char *location; /* as that of format_file */
};

enum { GGUF_RANK = 4, GGUF_NAME = 64 };
struct gguf_tensor {
    const struct gguf_part *part;
    char name[GGUF_NAME];
    int64_t dims[GGUF_RANK]; /* [rank], the fastest axis first */
    uint32_t rank;
    uint32_t type;
    uint64_t offset; /* of the data in the part */
    size_t bytes;
    bool used;
    bool written; /* as rows of embeddings */
};

/* Which architectures read a key, besides all; see gguf_keys.def. */
enum gguf_readers {
    GGUF_READ_BY_ALL = 0,
    GGUF_READ_BY_WINDOWS = 1, /* those whose layers see a part of the text */
    GGUF_READ_BY_GEMMA2 = 2,
    GGUF_READ_BY_SCALES = 4, /* Granite and MiniCPM */
    GGUF_READ_BY_GRANITE = 8,
    GGUF_READ_BY_QWEN_MOE = 16,
    GGUF_READ_BY_SHARED = 32, /* those with an expert that all tokens share */
    GGUF_READ_BY_GRANITE_DENSE = 64,
    GGUF_READ_BY_CAPS = 128, /* those that bound their logits */
    GGUF_READ_BY_ENCODERS = 256,
    GGUF_READ_BY_DELTA = 512,
    GGUF_READ_BY_YARN = 1024, /* those that read more about YaRN */
    GGUF_READ_BY_VISION = 2048,
    GGUF_READ_BY_LATENT = 4096,  /* those with latent attention */
    GGUF_READ_BY_DENSE = 8192,   /* those with products of the embedding of a text */
    GGUF_READ_BY_GAPS = 16384,   /* those with layers without attention, which have 0 heads of keys */
    GGUF_READ_BY_ROUTED = 32768, /* those that state how experts are chosen */
    GGUF_READ_BY_STATES = 65536, /* those with states of the delta rule or of Mamba 2 */
    GGUF_READ_BY_SHORT = 131072, /* those with short convolutions */
    GGUF_READ_BY_STEPS = 262144, /* those whose layers have experts at a distance */
    GGUF_READ_BY_COHERE = 524288,
    GGUF_READ_BY_PLACES = 1048576, /* those whose positions of images have a row and a column */
    GGUF_READ_BY_STACK = 2097152   /* those whose first layers read parts of the rows of images */
};

enum gguf_key {
#define GGUF_KEY(id, name, kind, readers, otherwise) GGUF_##id,
#define GGUF_IGNORED(name)
#include "formats/gguf_keys.def"
#undef GGUF_KEY
#undef GGUF_IGNORED
    GGUF_KEYS
};

struct gguf {
    const format_file *file;
    inlay_diag *diag;
    inlay_status status;     /* of the first failure */
    struct gguf_part *parts; /* [part_count], owned */
    char *names;             /* of the parts of a split file, owned */
    uint64_t part_count;
    struct gguf_value *values; /* [value_count], owned; of the first part */
    uint64_t value_count;
    struct gguf_tensor *tensors; /* [tensor_count], owned; of all parts */
    uint64_t tensor_count;
    struct gguf_text architecture;
    unsigned readers; /* bits of enum gguf_readers: what the architecture reads */
    int64_t context;  /* most tokens of a text */
};

/* gguf_read.c, gguf_keys.c */
INLAY_NODISCARD inlay_status gguf_open(const format_file *file, struct gguf *out, inlay_diag *diag);
void gguf_deinit(struct gguf *gguf);
/* Bytes of a number or a flag; 0: the type is none. */
size_t gguf_number_bytes(uint32_t type);
/* The value of a key, which is then used. NULL: the file or the architecture does not have it, or its type is none of
 * the key's kind, which is then gguf->status. */
struct gguf_value *gguf_find(struct gguf *gguf, enum gguf_key key);
/* The tensor of that name, which is then used; NULL: none. */
struct gguf_tensor *gguf_tensor(struct gguf *gguf, const char *name);
/* Numbers and texts, or the key's default. The functions with `otherwise` are for keys whose default is computed. */
int64_t gguf_int(struct gguf *gguf, enum gguf_key key);
int64_t gguf_int_or(struct gguf *gguf, enum gguf_key key, int64_t otherwise);
double gguf_float(struct gguf *gguf, enum gguf_key key);
double gguf_float_or(struct gguf *gguf, enum gguf_key key, double otherwise);
struct gguf_text gguf_string(struct gguf *gguf, enum gguf_key key); /* data NULL: missing */
/* Fails unless all keys have their types, and those of the architecture are obeyed, or ignored on purpose. Appends the
 * names of the latter. */
void gguf_check_keys(struct gguf *gguf, struct strbuf *ignored);
void gguf_fail_key(struct gguf *gguf, enum gguf_key key, const char *what);
/* Sets gguf->status unless it is set; text: followed by `which` in quotation marks. */
void gguf_refuse(struct gguf *gguf, inlay_status status, const char *text, const char *which);
bool gguf_text_is(struct gguf_text text, const char *what);
/* Reads the next text of an array of texts, from *at on, whose lengths gguf_open() has checked. */
struct gguf_text gguf_next_text(const uint8_t **at);
/* Item i of an array of numbers. */
double gguf_item(const struct gguf_value *array, uint64_t i);

/* gguf_weights.c */
/* NULL: the type is not supported. Types without blocks have no function `unpack`. */
const kit_block_type *gguf_type_of(const struct gguf_tensor *tensor);
/* Rows [first, first + count) of a matrix. name: that of the tensor if they are all. Floats, and blocks kept in the
 * file, are the initializer of that name; others are NAME.codes, NAME.scales and perhaps NAME.zeros. node: the name of
 * the product, or NULL. */
struct gguf_product {
    const struct gguf_tensor *tensor;
    int64_t first, count;
    const char *name, *node;
};
/* Writes the rows as initializers, and the nodes of output = input x rows^T. */
INLAY_NODISCARD inlay_status gguf_write_product(const struct gguf *gguf, const struct gguf_product *product,
                                                const char *input, const char *output, struct wire *out,
                                                inlay_diag *diag);
/* Writes three matrices for each expert, [columns, rows, experts], and a node. The node's output is the weighted sum of
 * down(SiLU(gate(input)) * up(input)) over the `used` experts with the largest logits of the router. The weights are
 * the softmax of all logits or, if `normalizes`, of the logits of the chosen experts. With biases [rows, experts], the
 * gate is that of gpt-oss: down(g sigmoid(1.702 g) * (u + 1)) with g = min(gate(input), 7) and u = up(input), between
 * -7 and 7. */
struct gguf_experts {
    const struct gguf_tensor *gate, *down, *up;
    const struct gguf_tensor *gate_bias, *down_bias, *up_bias; /* all, or NULL: none */
    int64_t used;
    bool normalizes;
};
INLAY_NODISCARD inlay_status gguf_write_experts(const struct gguf *gguf, const struct gguf_experts *experts,
                                                const char *input, const char *router, const char *output,
                                                struct wire *out, inlay_diag *diag);
/* Writes the nodes of output = the rows of the matrix at the indices. */
INLAY_NODISCARD inlay_status gguf_write_rows(const struct gguf *gguf, struct gguf_tensor *tensor, const char *indices,
                                             const char *output, struct wire *out, inlay_diag *diag);
/* Writes rows [first, first + count) as floats, the value NAME [count, columns]. */
INLAY_NODISCARD inlay_status gguf_write_matrix(const struct gguf *gguf, const struct gguf_tensor *tensor, int64_t first,
                                               int64_t count, const char *name, struct wire *out, inlay_diag *diag);
/* Writes a tensor of floats as the initializer of that name. */
INLAY_NODISCARD inlay_status gguf_write_floats(const struct gguf_tensor *tensor, const char *name, struct wire *out,
                                               inlay_diag *diag);
/* Writes elements [first, first + count) of a vector of floats as the initializer of that name. */
INLAY_NODISCARD inlay_status gguf_write_part(const struct gguf_tensor *vector, const char *name, int64_t first,
                                             int64_t count, struct wire *out, inlay_diag *diag);
/* Element i of a tensor of type F32. */
float gguf_element(const struct gguf_tensor *tensor, int64_t i);

/* gguf_graph.c: the name of a product with the rows of PREFIX.weight: that of its module in other formats, by which
 * adapters find it. false: it has none. */
bool gguf_module_name(const char *prefix, char *out, size_t bytes);

/* gguf_positions.c */
/* How positions turn the pairs of a head. */
struct gguf_turning {
    int64_t context, original_context; /* positions; those that the model was trained with before it was extended */
    int64_t size;                      /* elements of a head that turn */
    double base, factor;               /* pair i turns by 1 / (base^(2i / size) * factor) each position */
    const struct gguf_tensor *slower;  /* further divisors of the angles, [size / 2]; NULL: none */
    double amplitude;                  /* which cosines and sines are multiplied by */
    bool yarn;                         /* the factor concerns slow pairs only */
    double fast, slow; /* turns within the original context from which on, and up to which, pairs are so */
};
/* Writes the nodes that find the positions of a run, from `lengths` and `total_length.wide`. */
void gguf_write_positions(int64_t context, struct wire *out);
/* Writes the nodes of NAME.cos and NAME.sin, [new tokens of all texts, size / 2]; rotary.row has the row of each. */
void gguf_write_turning(struct gguf *gguf, const char *name, const struct gguf_turning *turning, struct wire *out);

/* Writes the nodes of image_turns.cos and image_turns.sin for texts with images, whose rows have a position in time, a
 * row and a column: the first sections[0] pairs of a head turn by the first of these, and so on, or, if they alternate,
 * pairs 1, 4 ... by the row and 2, 5 ... by the column, as many as these sections have, and the others by time. The
 * sections repeat if a head has more pairs than they have. The constant
 * image_shifts.none [1, 3] is what these positions differ by from that of the token; with option image_rows it is an
 * input [1 or new tokens of all texts, 3]. After gguf_write_turning() with the name "rotary". */
enum { GGUF_SECTIONS = 3 };
void gguf_write_sections(const int64_t sections[GGUF_SECTIONS], int64_t pairs, bool alternates, struct wire *out);

/* gguf_tokenizer.c: appends the properties of the tokenizer, if the file has one. */
void gguf_write_tokenizer(struct gguf *gguf, struct wire *out);
#endif
