/* gguf_vision.c - the graph of a vision part: an image is decoded, resized and split into patches, a vision transformer
 * (CLIP, SigLIP) reads these, and a projector makes rows of the width of the language model: two matrix multiplications
 * (LLaVA; Qwen2-VL and Qwen2.5-VL, of four patches together: see gguf_vision_grid.c), or means of squares of patches, a
 * norm and one multiplication (Gemma 3).
 *
 * The preparation of images is that of llama.cpp: the image keeps its aspect ratio, is resized to the side of the
 * encoder, or to sides that suit it, first its rows, then its columns, as Pillow does (bilinear for Gemma 3, bicubic
 * for the others, rounded to whole values), and is centred on a colour. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 4096, MAX_TILED_SIDE = 1 << 14 };

static const struct projector projectors[] = {
    { "mlp", { 122, 116, 104 }, PROJECTOR_PRODUCTS, NULL, NULL },
    { "gemma3", { 0, 0, 0 }, PROJECTOR_MEANS, "<start_of_image>", "<end_of_image>" },
    { "idefics3", { 0, 0, 0 }, PROJECTOR_TILES, NULL, NULL }, /* each tile has texts, which whoever reads images adds */
    { "qwen2vl_merger", { 0, 0, 0 }, PROJECTOR_GRID, "<|vision_start|>", "<|vision_end|>" },
    { "qwen2.5vl_merger", { 0, 0, 0 }, PROJECTOR_WINDOWS, "<|vision_start|>", "<|vision_end|>" },
};

static void floats(struct builder *b, const char *name, const float *data, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = { rows, columns };

    onnx_tensor(b->out, name, INLAY_FLOAT, rows == 1 ? dims + 1 : dims, rows == 1 ? 1 : 2, data,
                (size_t)(rows * columns) * sizeof *data);
}

/* output = the input, [height, width, 3], resized along one axis to whole values from 0 to 255. sizes: those of the
 * output. */
static void resample(const struct vision *v, const char *input, const char *sizes, const char *output)
{
    const onnx_attribute attributes[] = { { v->projector->kind == PROJECTOR_MEANS ? "mode=linear" : "mode=cubic", false,
                                            0, 0 },
                                          { "cubic_coeff_a", true, 0, -0.5F },
                                          { "antialias", false, 1, 0 },
                                          { "exclude_outside", false, 1, 0 } };
    struct builder *b = v->b;
    char inputs[TEXT], exact[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s - - %s", input, sizes);
    (void)snprintf(exact, sizeof exact, "%s.exact", output);
    onnx_node(b->out, "Resize", inputs, exact, attributes, sizeof attributes / sizeof *attributes);
    gguf_builder_program(b,
                         "Add $.exact image.half > $.up;Floor $.up > $.rounded;"
                         "Clip $.rounded image.darkest image.brightest > $;",
                         output);
}

/* $ [$.to, $.from]: the weights by which Lanczos' filter makes as many rows or columns as $.to [1] of $.from [1]. */
static const char lanczos_weights[] =
    "Cast $.from > $.from.float to=1;Squeeze $.from.float > $.in;Cast $.to > $.to.float to=1;Squeeze $.to.float > "
    "$.out;"
    "Div $.in $.out > $.scale;Max $.scale lanczos.one > $.wide;Range image.half $.in lanczos.one > $.places;"
    "Range image.half $.out lanczos.one > $.steps;Mul $.steps $.scale > $.centres;"
    "Unsqueeze $.centres image.axes1 > $.column;Sub $.places $.column > $.signed;Abs $.signed > $.far;"
    "Div $.far $.wide > $.distance;Clip $.distance lanczos.least lanczos.reach > $.safe;"
    "Mul $.safe lanczos.pi > $.angle;Div $.angle lanczos.reach > $.slow;Sin $.angle > $.sin;Sin $.slow > $.slow.sin;"
    "Mul $.angle $.slow > $.squared;Mul $.sin $.slow.sin > $.waves;Div $.waves $.squared > $.raw;"
    "ReduceSum $.raw image.axes1 > $.sum keepdims=1;Div $.raw $.sum > $;";

/* output = the image [height, width, 3] of the size `from` [2] in the size `to` [2], of whole values from 0 to 255. */
static void resize_lanczos(const struct vision *v, const char *input, const char *from, const char *to,
                           const char *output)
{
    struct builder *b = v->b;
    char columns[GGUF_NAME], rows[GGUF_NAME], names[TEXT];

    (void)snprintf(columns, sizeof columns, "%s.columns", output);
    (void)snprintf(rows, sizeof rows, "%s.rows", output);
    (void)snprintf(names, sizeof names, "%s.from %s.from", rows, columns);
    gguf_builder_node_of(b, "Split", from, names, "num_outputs", 2);
    (void)snprintf(names, sizeof names, "%s.to %s.to", rows, columns);
    gguf_builder_node_of(b, "Split", to, names, "num_outputs", 2);
    gguf_builder_program(b, lanczos_weights, columns);
    gguf_builder_program(b, lanczos_weights, rows);
    gguf_builder_node(b, "MatMul", "%s %s -> %s.exact", columns, input, columns);
    gguf_builder_program(b,
                         "Add $.columns.exact image.half > $.narrow.up;Floor $.narrow.up > $.narrow.rounded;"
                         "Clip $.narrow.rounded image.darkest image.brightest > $.narrow;Flatten $.narrow > $.flat;"
                         "MatMul $.rows $.flat > $.flat.exact;Reshape $.flat.exact lanczos.rows > $.exact;"
                         "Add $.exact image.half > $.up;Floor $.up > $.rounded;"
                         "Clip $.rounded image.darkest image.brightest > $;",
                         output);
}

/* image.resized, of the size image.fitted [2], which are whole tiles: the longer side of the image gets its length, the
 * other one an even length, and both are then stretched to whole tiles, as Idefics3 does. */
static void resize_to_tiles(const struct vision *v)
{
    struct builder *b = v->b;
    const int64_t longest = (v->longest + v->side - 1) / v->side * v->side, rest = v->side - 1;

    gguf_builder_list(b, "image.longest", &v->longest, 1);
    gguf_builder_list(b, "image.stretched", &longest, 1);
    gguf_builder_list(b, "image.tile", &v->side, 1);
    gguf_builder_list(b, "image.tile.rest", &rest, 1);
    gguf_builder_program(
        b,
        "1 > lanczos.one;3 > lanczos.reach;1e-6 > lanczos.least;3.14159265 > lanczos.pi;"
        "[0,-1,3] > lanczos.rows;ReduceMax $.size > $.longer keepdims=1;Equal $.size $.longer > $.is_longer;"
        "Mul $.size $.longest > $.product;Div $.product $.longer > $.other;Mod $.other $.two > $.odd;"
        "Add $.other $.odd > $.even;Where $.is_longer $.longest $.even > $.first;"
        "Mul $.first $.stretched > $.second.product;Div $.second.product $.longest > $.second;"
        "Add $.second $.tile.rest > $.last;Div $.last $.tile > $.tiles;"
        "Mul $.tiles $.tile > $.fitted;",
        "image");
    resize_lanczos(v, "image.pixels", "image.size", "image.first", "image.once");
    resize_lanczos(v, "image.once", "image.first", "image.fitted", "image.resized");
}

/* image.square [tiles + 1, side, side, 3]: the tiles of the resized image, row by row, and the image in one square. */
static void cut(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_list(b, "tile.sides", (int64_t[]){ v->side, v->side }, 2);
    gguf_builder_list(b, "tile.shape", (int64_t[]){ -1, v->side, v->side, 3 }, 4);
    gguf_builder_program(b,
                         "[1,1] > tiles.halves;Split image.tiles tiles.halves > tiles.down tiles.across axis=0;"
                         "Concat tiles.down image.tile tiles.across image.tile image.colours > tiles.apart axis=0;"
                         "Reshape image.resized tiles.apart > tiles.cut;"
                         "Einsum tiles.cut > tiles.near equation=yaxbc->yxabc;Reshape tiles.near tile.shape > tiles;",
                         "");
    resize_lanczos(v, "image.resized", "image.fitted", "tile.sides", "whole");
    gguf_builder_program(b, "Unsqueeze whole image.axes0 > whole.tile;Concat tiles whole.tile > image.square axis=0;",
                         "");
    gguf_builder_node(b, "Identity", "image.tiles -> image_tiles");
}

/* image.resized: the pixels of the file, of whole values from 0 to 255, [height, width, 3] within image.target, the
 * height and width that the encoder reads. */
static void resize(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_program(b,
                         "0.5 > $.half;0 > $.darkest;255 > $.brightest;[0] > $.axes0;[1] > $.axes1;"
                         "[2] > $.axes2;[3] > $.colours;(2) > $.two;[0] > $.none;"
                         "ImageDecoder image > $.decoded;Shape $.decoded > $.shape;"
                         "Slice $.shape $.axes0 $.axes2 > $.size;Cast $.size > $.size.float to=1;"
                         "Cast $.decoded > $.pixels to=1;",
                         "image");
    if (v->projector->kind == PROJECTOR_TILES) {
        resize_to_tiles(v);
        return;
    }
    if (gguf_is_grid(v))
        gguf_write_grid_target(v);
    else
        floats(b, "image.target", (float[]){ (float)v->side, (float)v->side }, 1, 2);
    gguf_builder_program(b,
                         "Div $.target $.size.float > $.scales;ReduceMin $.scales > $.scale keepdims=0;"
                         "Mul $.size.float $.scale > $.wanted;Ceil $.wanted > $.whole;"
                         "Min $.whole $.target > $.fitted.float;Cast $.fitted.float > $.fitted to=7;"
                         "Slice $.size $.axes0 $.axes1 > $.height;"
                         "Slice $.fitted $.axes1 $.axes2 > $.fitted.width;"
                         "Concat $.fitted $.colours > $.sizes axis=0;"
                         "Concat $.height $.fitted.width $.colours > $.narrow.sizes axis=0;",
                         "image");
    resample(v, "image.pixels", "image.narrow.sizes", "image.narrow");
    resample(v, "image.narrow", "image.sizes", "image.resized");
}

/* Three numbers of an array, one for each colour. */
static void colours(struct builder *b, enum gguf_key key, const char *name, bool positive)
{
    const struct gguf_value *value = gguf_find(b->gguf, key);
    float numbers[3] = { 0 };

    if (value == NULL || value->count != 3) {
        gguf_fail_key(b->gguf, key, "lacks a number for each of the three colours in the key");
        return;
    }
    for (uint64_t i = 0; i < 3; i++) {
        numbers[i] = (float)gguf_item(value, i);
        if (!(numbers[i] >= (positive ? 1e-6F : -1e6F) && numbers[i] <= 1e6F))
            gguf_fail_key(b->gguf, key, "has a value that is out of range for the key");
    }
    floats(b, name, numbers, 1, 3);
}

/* image.square: the resized image, surrounded by a colour. */
static void surround(const struct vision *v)
{
    struct builder *b = v->b;

    floats(b, "image.around", v->projector->around, 1, 3);
    gguf_builder_program(b,
                         "Sub image.resized image.around > image.centred;Cast image.target > image.target.whole to=7;"
                         "Sub image.target.whole image.fitted > image.left;Div image.left image.two > image.before;"
                         "Sub image.left image.before > image.after;"
                         "Concat image.before image.none image.after image.none > image.pads axis=0;"
                         "Pad image.centred image.pads > image.padded;Add image.padded image.around > image.square;",
                         "");
}

/* image.normal: what the encoder reads, [height, width, 3], or of each tile, in its numbers. */
static void square(const struct vision *v)
{
    struct builder *b = v->b;
    const bool tiles = v->projector->kind == PROJECTOR_TILES, is_whole = gguf_is_grid(v) || tiles;
    const int64_t used = is_whole ? v->side : v->grid * v->patch;

    colours(b, GGUF_IMAGE_MEAN, "image.mean", false);
    colours(b, GGUF_IMAGE_DEVIATION, "image.deviation", true);
    if (tiles)
        cut(v);
    else
        surround(v);
    gguf_builder_program(b,
                         "Div image.square image.brightest > image.unit;Sub image.unit image.mean > image.shifted;"
                         "Div image.shifted image.deviation > image.$;",
                         used < v->side ? "normal.all" : "normal");
    if (used < v->side) { /* pixels beyond the last patch are not read */
        gguf_builder_list(b, "image.slice.from", (int64_t[]){ 0, 0 }, 2);
        gguf_builder_list(b, "image.slice.to", (int64_t[]){ used, used }, 2);
        gguf_builder_node(b, "Slice", "image.normal.all image.slice.from image.slice.to -> image.normal");
    }
}

/* patches: the rows of the patches, of the class if there is one, and the positions of all. Returns the number of
 * rows. */
static int64_t embed(struct vision *v)
{
    struct builder *b = v->b;
    const int64_t patches = v->grid * v->grid;
    const bool has_class = v->projector->kind == PROJECTOR_PRODUCTS && gguf_builder_has(b, "v.class_embd");
    struct gguf_tensor *positions = gguf_tensor(b->gguf, "v.position_embd.weight");
    const char *rows = "patch_rows";
    int64_t count = patches + has_class;

    gguf_builder_list(b, "patches.apart", (int64_t[]){ -1, v->grid, v->patch, v->grid, v->patch, 3 }, 6);
    gguf_builder_list(b, "patches.joined", (int64_t[]){ -1, patches, 3 * v->patch * v->patch }, 3);
    gguf_builder_program(b,
                         "Reshape $ patches.apart > patches.cut;"
                         "Einsum patches.cut > patches.grid equation=nyaxbc->nyxcab;"
                         "Reshape patches.grid patches.joined > patches.flat;",
                         "image.normal");
    gguf_write_patches(v, "v.patch_embd.weight", "patches.flat", "patch_rows");
    if (gguf_builder_has(b, "v.patch_embd.bias")) {
        gguf_builder_vector(b, "v.patch_embd.bias", b->width);
        gguf_builder_node(b, "Add", "patch_rows v.patch_embd.bias -> patch_rows.biased");
        rows = "patch_rows.biased";
    }
    if (has_class) {
        char inputs[TEXT];

        gguf_builder_list(b, "class.axes", (int64_t[]){ 0, 1 }, 2);
        gguf_builder_vector(b, "v.class_embd", b->width);
        gguf_builder_node(b, "Unsqueeze", "v.class_embd class.axes -> class.row");
        (void)snprintf(inputs, sizeof inputs, "%s class.row", rows);
        gguf_builder_node_of(b, "Concat", inputs, "class_and_patches", "axis", 1);
        rows = "class_and_patches";
    }
    if (positions == NULL || positions->rank != 2 || positions->dims[0] != b->width || positions->dims[1] < count)
        gguf_builder_refuse_tensor(b, "v.position_embd.weight");
    onnx_tensor(b->out, "positions.count", INLAY_INT64, NULL, 0, &count, sizeof count);
    gguf_builder_program(b,
                         "(0) > positions.first;(1) > positions.step;"
                         "Range positions.first positions.count positions.step > positions;",
                         "");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, positions, "positions", "position_rows", b->out, b->gguf->diag);
    gguf_builder_node(b, "Add", "%s position_rows -> placed", rows);
    return count;
}

static void write_layer(const struct vision *v, int64_t layer, const char *input, const char *output)
{
    static const char *const parts[] = { "attn_q", "attn_k", "attn_v" };
    struct builder *b = v->b;
    char prefix[32], name[GGUF_NAME], norm[GGUF_NAME], inputs[TEXT];

    (void)snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);
    (void)snprintf(norm, sizeof norm, "%sln1", prefix);
    gguf_builder_layer_norm(b, norm, input, norm);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, parts[i]);
        gguf_builder_linear(b, name, b->width, b->width, 0, b->width, norm, name);
    }
    gguf_builder_attention(b, prefix, NULL, input, "attn_out");
    (void)snprintf(inputs, sizeof inputs, "%sattn_out.sum", prefix);
    (void)snprintf(name, sizeof name, "%sln2", prefix);
    gguf_builder_layer_norm(b, name, inputs, name);
    (void)snprintf(norm, sizeof norm, "%sffn", prefix);
    gguf_write_vision_network(v, prefix, name, norm);
    gguf_builder_node(b, "Add", "%s %s -> %s", inputs, norm, output);
}

/* LLaVA reads the layer before the last one, whose tensors files have nevertheless. */
static void leave_out(struct builder *b, int64_t layer)
{
    char prefix[32];
    const int bytes = snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);

    bool found = false;

    for (uint64_t i = 0; i < b->gguf->tensor_count; i++) {
        const bool belongs = strncmp(b->gguf->tensors[i].name, prefix, (size_t)bytes) == 0;

        b->gguf->tensors[i].used |= belongs;
        found |= belongs;
    }
    if (!found)
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "lacks the tensors", prefix);
}

/* Gemma 3: the means of squares of patches, normalized, and their product. The file has the columns of its matrix as
 * rows. */
static void project_squares(const struct vision *v, const char *input)
{
    static const char product[] = "mm.input_projection.weight";
    struct builder *b = v->b;
    const struct gguf_tensor *matrix = gguf_tensor(b->gguf, product);
    const int64_t squares = v->grid / v->merged;

    if (matrix == NULL || matrix->rank != 2 || matrix->dims[1] != b->width || matrix->dims[0] > 1 << 24)
        gguf_builder_refuse_tensor(b, product);
    gguf_builder_list(b, "squares.apart", (int64_t[]){ squares, v->merged, squares, v->merged, b->width }, 5);
    gguf_builder_list(b, "squares.axes", (int64_t[]){ 1, 3 }, 2);
    gguf_builder_program(b,
                         "Reshape $ squares.apart > squares.patches;"
                         "ReduceMean squares.patches squares.axes > squares keepdims=0;",
                         input);
    gguf_builder_rms_norm(b, "mm.soft_emb_norm.weight", b->width, "squares", "squares.normal");
    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_matrix(b->gguf, matrix, 0, b->width, product, b->out, b->gguf->diag);
    gguf_builder_node(b, "MatMul", "squares.normal %s -> squares.product", product);
    gguf_write_image_rows(b, "squares.product", matrix->dims[0]);
}

/* Idefics3: squares of patches as one row each, and their product. */
static void project_tiles(const struct vision *v, const char *input)
{
    static const char product[] = "mm.model.fc";
    struct builder *b = v->b;
    const struct gguf_tensor *matrix = gguf_tensor(b->gguf, "mm.model.fc.weight");
    const int64_t squares = v->grid / v->merged, columns = v->merged * v->merged * b->width;
    const int64_t width = matrix != NULL && matrix->rank == 2 ? matrix->dims[1] : 0;

    if (width < 1 || width > 1 << 24)
        gguf_builder_refuse_tensor(b, "mm.model.fc.weight");
    gguf_builder_list(b, "squares.apart", (int64_t[]){ -1, squares, v->merged, squares, v->merged, b->width }, 6);
    gguf_builder_list(b, "squares.joined", (int64_t[]){ -1, squares * squares, columns }, 3);
    gguf_builder_program(b,
                         "Reshape $ squares.apart > squares.cut;Einsum squares.cut > squares.near "
                         "equation=nyaxbc->nyxabc;Reshape squares.near squares.joined > squares;",
                         input);
    gguf_builder_linear(b, product, columns, width, 0, width, "squares", product);
    gguf_write_image_rows(b, product, width);
    onnx_value(b->out, ONNX_OUTPUT, "image_tiles", INLAY_INT64, "2");
}

static void read_sizes(struct vision *v)
{
    struct builder *b = v->b;
    struct gguf *gguf = b->gguf;
    const struct gguf_text kind = gguf_string(gguf, GGUF_PROJECTOR), other = gguf_string(gguf, GGUF_VISION_PROJECTOR);
    const struct gguf_text projector = kind.data != NULL ? kind : other;
    const bool gelu = gguf_int(gguf, GGUF_GELU) != 0, silu = gguf_int(gguf, GGUF_SILU) != 0;

    if (gguf_int(gguf, GGUF_SOUND) != 0)
        gguf_fail_key(gguf, GGUF_SOUND, "encodes sound, which is not supported, by the key");
    if (gguf_int(gguf, GGUF_VISION) == 0)
        gguf_fail_key(gguf, GGUF_VISION, "has no vision part, by the key");
    for (size_t i = 0; i < sizeof projectors / sizeof *projectors; i++)
        if (gguf_text_is(projector, projectors[i].name))
            v->projector = &projectors[i];
    if (v->projector == NULL)
        gguf_fail_key(
            gguf, kind.data != NULL || other.data == NULL ? GGUF_PROJECTOR : GGUF_VISION_PROJECTOR,
            "has another value than 'mlp' (LLaVA), 'gemma3', 'idefics3', 'qwen2vl_merger' and 'qwen2.5vl_merger', "
            "which are supported, for the key");
    if (gguf_find(gguf, GGUF_IMAGE_SIZES) != NULL && gguf_find(gguf, GGUF_IMAGE_SIZES)->count > 0)
        gguf_fail_key(gguf, GGUF_IMAGE_SIZES, "divides images into tiles, which is not supported, by the key");
    if (gguf_find(gguf, GGUF_FEATURE_LAYERS) != NULL && gguf_find(gguf, GGUF_FEATURE_LAYERS)->count > 0)
        gguf_fail_key(gguf, GGUF_FEATURE_LAYERS, "states layers, which is not supported, by the key");
    if (gelu && silu)
        gguf_fail_key(gguf, GGUF_SILU, "has two activations, by the key");
    v->activation = gelu ? "gelu" : silu ? "silu" : "quick";
    v->side = gguf_builder_size(b, GGUF_IMAGE_SIDE, MAX_SIDE);
    v->patch = gguf_builder_size(b, GGUF_PATCH_SIDE, v->side);
    v->grid = v->patch > 0 ? v->side / v->patch : 0;
    if (v->projector != NULL && v->projector->kind == PROJECTOR_TILES) {
        v->longest = gguf_builder_size(b, GGUF_TILED_SIDE, MAX_TILED_SIDE);
        if (gguf_find(gguf, GGUF_MERGED_PATCHES) == NULL)
            gguf_fail_key(gguf, GGUF_MERGED_PATCHES, "lacks the key");
        if (v->patch > 0 && v->side % v->patch != 0)
            gguf_fail_key(gguf, GGUF_PATCH_SIDE, "does not divide the side of a tile by the key");
    } else if (gguf_int_or(gguf, GGUF_TILED_SIDE, 0) != 0) {
        gguf_fail_key(gguf, GGUF_TILED_SIDE, "divides images into tiles, which is not supported, by the key");
    }
    if (v->projector != NULL && (v->projector->kind == PROJECTOR_MEANS || v->projector->kind == PROJECTOR_TILES))
        v->merged = gguf_builder_size(b, GGUF_MERGED_PATCHES, MAX_SIDE);
    if (v->merged > 0 && v->grid % v->merged != 0)
        gguf_fail_key(gguf, GGUF_MERGED_PATCHES, "does not divide the patches of a side by the key");
    b->width = gguf_builder_size(b, GGUF_VISION_WIDTH, 1 << 20);
    b->hidden = gguf_builder_size(b, GGUF_VISION_HIDDEN, 1 << 24);
    b->heads = gguf_builder_size(b, GGUF_VISION_HEADS, MAX_HEADS);
    b->layers = gguf_builder_size(b, GGUF_VISION_LAYERS, MAX_LAYERS);
    b->epsilon = (float)gguf_float(gguf, GGUF_VISION_EPSILON);
    if (gguf->status == INLAY_OK && gguf_is_grid(v))
        gguf_read_grid(v);
    else if (gguf_int(gguf, GGUF_WINDOW_PATTERN) != 0)
        gguf_fail_key(gguf, GGUF_WINDOW_PATTERN, "has windows, which are not supported for its projector, by the key");
    if (gguf->status == INLAY_OK && b->width % b->heads != 0)
        gguf_fail_key(gguf, GGUF_VISION_HEADS, "has heads that do not divide the width by the key");
    if (!(b->epsilon > 0))
        gguf_fail_key(gguf, GGUF_VISION_EPSILON, "has a value that is not positive for the key");
}

void gguf_write_vision(struct builder *b)
{
    struct vision v = { .b = b };
    char names[2][GGUF_NAME] = { "placed", "" };
    const char *last;
    int64_t count, layers;

    read_sizes(&v);
    if (b->gguf->status != INLAY_OK)
        return;
    layers = b->layers - (v.projector->kind == PROJECTOR_PRODUCTS);
    b->image.begin = v.projector->begin;
    b->image.end = v.projector->end;
    b->image.whole = v.projector->kind == PROJECTOR_MEANS;
    onnx_value(b->out, ONNX_INPUT, "image", INLAY_UINT8, "file_bytes");
    resize(&v);
    square(&v);
    if (gguf_is_grid(&v)) {
        gguf_write_grid(&v);
        return;
    }
    count = embed(&v);
    if (gguf_builder_has(b, "v.pre_ln.weight")) {
        gguf_builder_layer_norm(b, "v.pre_ln", "placed", "v.pre_ln");
        (void)snprintf(names[0], sizeof names[0], "%s", "v.pre_ln");
    }
    for (int64_t layer = 0; layer < layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(names[(layer + 1) % 2], sizeof names[0], "layer.%" PRId64, layer);
        write_layer(&v, layer, names[layer % 2], names[(layer + 1) % 2]);
    }
    if (layers < b->layers)
        leave_out(b, layers);
    last = names[layers % 2];
    if (gguf_builder_has(b, "v.post_ln.weight")) {
        gguf_builder_layer_norm(b, "v.post_ln", last, "v.post_ln");
        last = "v.post_ln";
    }
    if (count > v.grid * v.grid) { /* the row of the class */
        gguf_builder_list(b, "class.end", &count, 1);
        gguf_builder_node(b, "Slice", "%s image.axes1 class.end image.axes1 -> encoded", last);
        last = "encoded";
    }
    if (v.projector->kind == PROJECTOR_MEANS)
        project_squares(&v, last);
    else if (v.projector->kind == PROJECTOR_TILES)
        project_tiles(&v, last);
    else
        gguf_write_vision_products(b, b->width, last);
}
