/* formats/gguf_vision.h - vision parts of language models (mmproj files), of the architecture clip. */
#ifndef FORMATS_GGUF_VISION_H
#define FORMATS_GGUF_VISION_H
#include "formats/gguf_builder.h"

/* How the rows of patches become those of the language model. */
enum projector_kind {
    PROJECTOR_PRODUCTS, /* two products of each patch (LLaVA) */
    PROJECTOR_MEANS,    /* means of squares of patches, and a product (Gemma 3) */
    PROJECTOR_TILES,    /* squares of patches together, and a product; images are cut into tiles (Idefics3) */
    PROJECTOR_GRID,     /* two products of four patches; images have sizes of their own (Qwen2-VL) */
    PROJECTOR_WINDOWS   /* and most layers see windows of patches only (Qwen2.5-VL) */
};

struct projector {
    const char *name;
    float around[3]; /* the colour around images of another aspect ratio, red, green and blue */
    enum projector_kind kind;
    const char *begin, *end; /* texts of the tokens before and after the rows; NULL: none */
};

struct vision {
    struct builder *b;
    const struct projector *projector;
    int64_t side, patch, grid; /* pixels of the image and of a patch; patches of a side */
    int64_t merged;            /* patches of the side of a square */
    int64_t longest;           /* of tiles: pixels of the longer side of the image that is cut */
    int64_t window, pattern; /* of a grid: patches of the side of a window; each pattern-th layer sees all; 0: all do */
    const char *activation;
};

/* Whether images have any size, and their rows a place in a grid. */
static inline bool gguf_is_grid(const struct vision *v)
{
    return v->projector->kind >= PROJECTOR_GRID;
}

/* Writes the graph of an encoder of images: from `image`, the bytes of a file, to `image_rows` [rows, width], which
 * take the places of tokens in a text. */
void gguf_write_vision(struct builder *b);

/* gguf_vision_parts.c */
/* output = input x the rows of a weight whose columns are all axes but the last one of the file. */
void gguf_write_patches(const struct vision *v, const char *weight, const char *input, const char *output);
/* output = the second product of the activated first one, or a gated network. Older files have the names of the
 * products exchanged. */
void gguf_write_vision_network(const struct vision *v, const char *layer, const char *input, const char *output);
/* image_rows = the second product of the activated first one. columns: of the input. */
void gguf_write_vision_products(struct builder *b, int64_t columns, const char *input);
/* The output image_rows [rows, width]: the input, whose last axis has that width. */
void gguf_write_image_rows(struct builder *b, const char *input, int64_t width);

/* gguf_vision_grid.c: their output image_grid [2] has the rows and columns of the grid. */
void gguf_read_grid(struct vision *v);
/* image.target: the height and width [2] that the image is resized to. */
void gguf_write_grid_target(const struct vision *v);
/* From image.normal on. */
void gguf_write_grid(const struct vision *v);
#endif
