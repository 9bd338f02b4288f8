/* formats/gguf_vision.h - vision parts of language models (mmproj files), of the architecture clip. */
#ifndef FORMATS_GGUF_VISION_H
#define FORMATS_GGUF_VISION_H
#include "formats/gguf_builder.h"

/* How the rows of patches become those of the language model. */
enum projector_kind {
    PROJECTOR_PRODUCTS, /* two products of each patch (LLaVA) */
    PROJECTOR_MEANS,    /* means of squares of patches, and a product (Gemma 3) */
    PROJECTOR_TILES,    /* squares of patches together, and a product; images are cut into tiles (Idefics3) */
    PROJECTOR_SIZES,    /* and two products; tiles of the size of an image that suits it best (InternVL) */
    PROJECTOR_GRID,     /* two products of four patches; images have sizes of their own (Qwen2-VL) */
    PROJECTOR_WINDOWS,  /* and most layers see windows of patches only (Qwen2.5-VL) */
    PROJECTOR_STACK,    /* as GRID, and rows of some layers follow each row (Qwen3-VL) */
    PROJECTOR_LINES     /* two products of patches, or of squares of them; a row ends each line (Pixtral) */
};

enum { PROJECTOR_TEXT = 20 };

struct projector {
    char name[PROJECTOR_TEXT];
    char begin[PROJECTOR_TEXT], end[PROJECTOR_TEXT]; /* texts of the tokens before and after the rows; "": none */
    enum projector_kind kind;
    int64_t most_rows; /* of an image that has a size of its own */
    float around[3];   /* the colour around images of another aspect ratio, red, green and blue */
    bool rms;          /* norms subtract no mean */
};

struct vision {
    struct builder *b;
    const struct projector *projector;
    int64_t side, patch, grid; /* pixels of the image and of a patch; patches of a side */
    int64_t merged;            /* patches of the side of a square */
    int64_t longest;           /* of tiles: pixels of the longer side of the image that is cut */
    int64_t fewest, most;      /* tiles of the sizes of images */
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
/* output = the input, [height, width, 3], resized along one axis to whole values from 0 to 255. sizes: those of the
 * output. */
void gguf_resample(const struct vision *v, const char *input, const char *sizes, const char *output);
/* output = input x the rows of a weight whose columns are all axes but the last one of the file. */
void gguf_write_patches(const struct vision *v, const char *weight, const char *input, const char *output);
/* output = the input, normalized with NORM.weight and, unless the projector's norms subtract no mean, NORM.bias. */
void gguf_write_vision_norm(const struct vision *v, const char *norm, const char *input, const char *output);
/* output = the input after a layer. sees: of a grid, SEES.row has the rows of the angles rotary.cos and rotary.sin, and
 * SEES.mask says which patches are read; NULL: nothing rotates, and all are. */
void gguf_write_vision_layer(const struct vision *v, int64_t layer, const char *sees, const char *input,
                             const char *output);
/* output = the product of `second` and the activated product of `first` and the input, which has `columns`. LLaVA may
 * have one product. Returns the width of the output. */
int64_t gguf_write_vision_products(const struct vision *v, const char *first, const char *second, int64_t columns,
                                   const char *input, const char *output);
/* The output image_rows [rows, width]: the input, whose last axis has that width. */
void gguf_write_image_rows(struct builder *b, const char *input, int64_t width);

/* gguf_vision_tiles.c */
/* image.resized, of the size image.fitted [2], which are whole tiles: the longer side of the image gets its length, the
 * other one an even length, and both are then stretched to whole tiles, as Idefics3 does. */
void gguf_resize_to_tiles(const struct vision *v);
/* image.square [tiles + 1, side, side, 3]: the tiles of the resized image, row by row, and the image in one square. */
void gguf_write_tiles(const struct vision *v);
/* image.target: of the sizes of fewest to most tiles, the one in which the image, with its aspect ratio, has the most
 * pixels, and of these the smallest, as InternVL does. */
void gguf_write_best_size(const struct vision *v);

/* gguf_vision_grid.c */
void gguf_read_grid(struct vision *v);
/* image.target: the height and width [2] that the image is resized to. */
void gguf_write_grid_target(const struct vision *v);
/* From image.normal on. The output image_grid [2] of Qwen has the rows and columns of the grid. */
void gguf_write_grid(const struct vision *v);
#endif
