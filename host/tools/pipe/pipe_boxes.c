/* pipe_boxes.c - the step boxes: finds out what kind of detector the model is, from its metadata and the shapes of its
 * outputs, and decodes that kind. An ambiguous shape is refused. */
#include "pipe/pipe_parts.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum boxes_task { DETECT, SEGMENT, POSE, ORIENTED } boxes_task;
typedef enum boxes_layout { V8, V5, END, DETR, LAYOUTS, UNKNOWN = LAYOUTS } boxes_layout;
static const char *const layout_names[LAYOUTS] = { "v8", "v5", "end", "detr" };

struct detector {
    boxes_layout layout;
    boxes_task task;
    inlay_str labels; /* a line for each class; "" if they have no names */
    int64_t classes;  /* 0: unknown */
    int64_t extra;    /* numbers of a prediction after its classes */
    int64_t points;   /* numbers of a key point */
    uint32_t masks;   /* the output with the prototypes of masks; or INLAY_NONE */
    bool from_file;   /* the option labels states the classes */
    bool transposed;  /* v8 with a row for each prediction */
    uint32_t logits;  /* the output with the scores of classes, if boxes and scores are separate; or INLAY_NONE */
};

static const char *property(const pipe_chain *chain, const char *key)
{
    for (uint32_t i = 0; i < chain->model->metadata_count; i++)
        if (strcmp(chain->model->metadata[i].key, key) == 0)
            return chain->model->metadata[i].value;
    return NULL;
}

/* Reads names as Ultralytics writes them, "{0: 'person', 1: 'bicycle'}" or "['person', 'bicycle']", to a line each.
 * Counts them, or returns -1 if the text is something else. */
static int64_t read_names(pipe_chain *chain, const char *text, inlay_str *out)
{
    char *lines = arena_alloc(&chain->model->arena, strlen(text) + 2), *to = lines;
    const char open = text[0], close = open == '{' ? '}' : ']';
    int64_t count = 0;

    if (lines == NULL || (open != '{' && open != '['))
        return -1;
    for (text++; *text != close; count++) {
        char quote, *end;

        text += strspn(text, " ,");
        if (open == '{') {
            if (strtoll(text, &end, 10) != count || end == text)
                return -1;
            text = end + strspn(end, ": ");
        }
        quote = *text++;
        if (quote != '\'' && quote != '"')
            return -1;
        for (; *text != quote; text++) {
            text += *text == '\\' && text[1] != '\0';
            if (*text == '\0' || *text == '\n')
                return -1;
            *to++ = *text;
        }
        *to++ = '\n';
        text += 1 + strspn(text + 1, " ");
    }
    *to = '\0';
    *out = (inlay_str){ lines, (uint64_t)(to - lines) };
    return count;
}

/* Sets task, labels, classes and points. */
static inlay_status read_metadata(pipe_chain *chain, struct detector *detector)
{
    static const struct {
        const char *word;
        boxes_task task;
    } tasks[] = { { "detect", DETECT }, { "segment", SEGMENT }, { "pose", POSE }, { "obb", ORIENTED } };
    const char *task = property(chain, "task"), *names = property(chain, "names"),
               *points = property(chain, "kpt_shape");
    const char *path = pipe_option(chain, "labels");
    bool known = task == NULL;

    for (size_t i = 0; task != NULL && i < sizeof tasks / sizeof tasks[0]; i++)
        if (strcmp(task, tasks[i].word) == 0) {
            detector->task = tasks[i].task;
            known = true;
        }
    if (!known)
        return pipe_fail(chain, "the model's task is '%.60s', not detect, segment, pose or obb%s", task,
                         strcmp(task, "classify") == 0 ? ": use softmax,topk" : "");
    if (path != NULL) {
        const inlay_status status = pipe_file(chain, path, &detector->labels);

        if (status != INLAY_OK)
            return status;
        detector->from_file = true;
        detector->classes = pipe_count_lines(detector->labels);
    } else if (names != NULL) {
        detector->classes = read_names(chain, names, &detector->labels);
        if (detector->classes < 1)
            return pipe_fail(chain, "the model's metadata 'names' is not a list of names; give labels=FILE");
    }
    if (detector->task == POSE &&
        (points == NULL || sscanf(points, "[%*d, %lld]", (long long *)&detector->points) != 1))
        detector->points = 3;
    return INLAY_OK;
}

static int64_t size_of(const pipe_chain *chain, uint32_t value, uint32_t axis)
{
    const graph_value *info = &chain->graph->values[value];

    return info->declared && axis < info->declared_rank && info->declared_dims[axis].kind == INLAY_DIM_FIXED
               ? info->declared_dims[axis].value
               : -1;
}

static uint32_t rank_of(const pipe_chain *chain, uint32_t value)
{
    const graph_value *info = &chain->graph->values[value];

    return info->declared ? info->declared_rank : INLAY_RANK_UNKNOWN;
}

/* Height and width of the picture that the model gets; 0: unknown. */
static void picture_sides(const pipe_chain *chain, int64_t sides[2])
{
    memcpy(sides, chain->sides, sizeof chain->sides);
    for (uint32_t i = 0; i < chain->graph->input_count && (sides[0] <= 0 || sides[1] <= 0); i++) {
        const uint32_t input = chain->graph->inputs[i];

        if (rank_of(chain, input) == 4) {
            const uint32_t at = size_of(chain, input, 3) == 3 && size_of(chain, input, 1) != 3 ? 1 : 2;

            sides[0] = size_of(chain, input, at);
            sides[1] = size_of(chain, input, at + 1);
        }
    }
}

/* The number of cells of the grids with the strides 8, 16, 32 and, if `four`, 64; -1: the picture's size is unknown. */
static int64_t grid_cells(const pipe_chain *chain, bool four)
{
    int64_t sides[2], cells = 0;

    picture_sides(chain, sides);
    if (sides[0] <= 0 || sides[1] <= 0)
        return -1;
    for (int64_t stride = 8; stride <= (four ? 64 : 32); stride *= 2)
        cells += ((sides[0] + stride - 1) / stride) * ((sides[1] + stride - 1) / stride);
    return cells;
}

/* The layout of [1, a, b], if the number of classes is known: `width` numbers of a prediction without a confidence.
 * ends: the model itself suppresses overlapping boxes. */
static boxes_layout layout_by_width(int64_t a, int64_t b, int64_t width, int64_t extra, bool ends)
{
    if (b == 6 + extra && (ends || (b != width && a != width)))
        return END;
    if (a == width && b != width)
        return V8;
    return b == width + 1 ? V5 : b == width && a != width ? DETR : UNKNOWN;
}

/* The layout by the number of predictions: V8 has one for each cell, V5 three; a list of a few rows of 6 is END. */
static boxes_layout layout_by_count(int64_t a, int64_t b, int64_t cells, int64_t more_cells)
{
    if (cells > 0 && (b == cells || b == more_cells))
        return V8;
    if (cells > 0 && (a == 3 * cells || a == 3 * more_cells))
        return V5;
    if (b == 6 && a <= 1000)
        return END;
    /* Of a picture of unknown size: more predictions than numbers, or too few numbers for a row, so they come first. */
    return cells < 0 && a > 4 && (b < 5 || a < b) ? V8 : UNKNOWN;
}

/* The output with prototypes of masks, [1, count, height, width]; INLAY_NONE: none. */
static uint32_t find_masks(const pipe_chain *chain)
{
    for (uint32_t i = 0; i < chain->graph->output_count; i++)
        if (chain->graph->outputs[i] != chain->target && rank_of(chain, chain->graph->outputs[i]) == 4)
            return chain->graph->outputs[i];
    return INLAY_NONE;
}

/* Whether the first of two outputs [1, queries, 4] and [1, queries, classes] has the boxes. With four classes, the
 * names of the outputs decide. */
static bool has_boxes(const pipe_chain *chain, uint32_t first, uint32_t second)
{
    return size_of(chain, first, 2) == 4 &&
           (size_of(chain, second, 2) != 4 || strcasestr(chain->graph->values[first].info.name.data, "box") != NULL);
}

/* The other output of a model with separate boxes and scores; INLAY_NONE: none. */
static uint32_t find_partner(const pipe_chain *chain)
{
    for (uint32_t i = 0; i < chain->graph->output_count; i++) {
        const uint32_t other = chain->graph->outputs[i];

        if (other != chain->target && rank_of(chain, other) == 3 && pipe_target_rank(chain) == 3 &&
            size_of(chain, other, 1) == pipe_target_size(chain, 1) &&
            has_boxes(chain, other, chain->target) != has_boxes(chain, chain->target, other))
            return other;
    }
    return INLAY_NONE;
}

/* Numbers of a prediction that follow its classes, by the task; -1: unknown. */
static int64_t extra_of_task(const pipe_chain *chain, const struct detector *detector)
{
    const char *shape = property(chain, "kpt_shape");
    long long points = 0, numbers = 0;

    if (detector->task == SEGMENT)
        return detector->masks != INLAY_NONE ? size_of(chain, detector->masks, 1) : -1;
    if (detector->task == POSE)
        return shape != NULL && sscanf(shape, "[%lld, %lld]", &points, &numbers) == 2 ? points * numbers : -1;
    return detector->task == ORIENTED ? 1 : 0;
}

/* Whether the metadata say that the model suppresses overlapping boxes by itself. */
static bool suppresses(const pipe_chain *chain)
{
    const char *ends = property(chain, "end2end"), *made_with = property(chain, "args");

    return (ends != NULL && strcasecmp(ends, "true") == 0) ||
           (made_with != NULL && strstr(made_with, "'nms': True") != NULL);
}

/* The reason why an output is no list of boxes with the classes that are known. */
static inlay_status fail_classes(pipe_chain *chain, const struct detector *detector, int64_t a, int64_t b)
{
    const int64_t extra = extra_of_task(chain, detector);
    const boxes_layout like = layout_by_count(a, b, grid_cells(chain, false), grid_cells(chain, true));
    const int64_t classes = like == V8 ? a - 4 - extra : like == V5 ? b - 5 - extra : 0;

    if (extra < 0)
        return pipe_fail(chain, "the metadata 'kpt_shape' of a pose model is missing: name the layout, as in boxes:v8, "
                                "if a key point has 3 numbers");
    if (classes > 0)
        return pipe_fail(chain,
                         "the output [%lld, %lld] has %lld classes, but %s has %lld: give labels=FILE with %lld lines",
                         (long long)a, (long long)b, (long long)classes,
                         detector->from_file ? "the file of labels" : "the metadata 'names'",
                         (long long)detector->classes, (long long)classes);
    return pipe_fail(chain, "the output [%lld, %lld] is not a list of boxes with %lld classes and %lld more numbers",
                     (long long)a, (long long)b, (long long)detector->classes, (long long)extra);
}

static inlay_status choose_layout(pipe_chain *chain, struct detector *detector, const char *word, int64_t a, int64_t b)
{
    const int64_t cells = grid_cells(chain, false), extra = extra_of_task(chain, detector);
    const char *about = property(chain, "description");
    const bool detr = about != NULL && strstr(about, "DETR") != NULL;

    for (uint32_t i = 0; i < LAYOUTS && word != NULL; i++)
        if (strcmp(word, layout_names[i]) == 0)
            detector->layout = (boxes_layout)i;
    if (detector->layout == UNKNOWN && (detector->logits = find_partner(chain)) != INLAY_NONE) {
        detector->layout = DETR;
        return INLAY_OK;
    }
    if (detector->layout == UNKNOWN && detector->classes > 0 && extra >= 0) {
        const int64_t width = 4 + detector->classes + extra;

        detector->layout = layout_by_width(a, b, width, extra, suppresses(chain) && !detr);
        if (detector->layout == DETR && !detr && (a == cells || (b == 6 + extra && about == NULL)))
            return pipe_fail(chain, "the output [%lld, %lld] may be %s or detr: name the layout, as in boxes:%s",
                             (long long)a, (long long)b, a == cells ? "a transposed v8" : "end",
                             a == cells ? "v8" : "end");
    }
    if (detector->layout == UNKNOWN && detector->classes == 0)
        detector->layout = layout_by_count(a, b, cells, grid_cells(chain, true));
    if (detector->layout != UNKNOWN)
        return INLAY_OK;
    if (detector->classes > 0)
        return fail_classes(chain, detector, a, b);
    return pipe_fail(
        chain,
        "the output [%lld, %lld] of a picture with %lld cells may have any layout: name it, as in boxes:v8 (also "
        "v5, end, detr), or the classes with labels=FILE",
        (long long)a, (long long)b, (long long)cells);
}

/* Checks that the numbers after the classes are what the task needs. */
static inlay_status check_extra(pipe_chain *chain, const struct detector *detector, int64_t width)
{
    const int64_t extra = detector->extra, wanted = extra_of_task(chain, detector);
    const long long classes = detector->classes;

    if (detector->task == SEGMENT && extra != wanted)
        return pipe_fail(chain, "%lld numbers after %lld classes for %lld masks", (long long)extra, classes,
                         (long long)wanted);
    if (detector->task == POSE && (extra < detector->points || extra % detector->points != 0))
        return pipe_fail(chain, "%lld numbers after %lld classes are not key points of %lld", (long long)extra, classes,
                         (long long)detector->points);
    if ((detector->task == DETECT && extra != 0) || (detector->task == ORIENTED && extra != 1))
        return pipe_fail(
            chain,
            "a prediction has %lld numbers, of which %lld belong to no box, no class and no angle (%lld classes)",
            (long long)width, (long long)(extra - (detector->task == ORIENTED)), classes);
    return INLAY_OK;
}

static inlay_status read_shape(pipe_chain *chain, struct detector *detector, const char *word)
{
    const uint32_t rank = pipe_target_rank(chain), from = rank == 2 ? 0 : 1;
    const int64_t a = pipe_target_size(chain, from), b = pipe_target_size(chain, from + 1);
    const int64_t cells = grid_cells(chain, false);
    int64_t width, box, known_extra, numbers;
    inlay_status status;

    if (rank != 2 && rank != 3)
        return pipe_fail(chain, "the output is not a list of predictions; --result names another output");
    detector->masks = find_masks(chain);
    if (detector->masks != INLAY_NONE && property(chain, "task") == NULL)
        detector->task = SEGMENT;
    if (detector->task == SEGMENT && extra_of_task(chain, detector) < 1)
        return pipe_fail(chain, "a segmentation model needs an output [1, masks, height, width]");
    known_extra = extra_of_task(chain, detector);
    status = choose_layout(chain, detector, word, a, b);
    if (status != INLAY_OK || detector->logits != INLAY_NONE)
        return status;
    numbers = detector->classes > 0 && known_extra >= 0 ? 4 + detector->classes + known_extra : -1;
    detector->transposed =
        detector->layout == V8 && (numbers > 0 ? a != numbers && b == numbers : cells > 0 && a == cells && b != cells);
    width = detector->layout == V8 && !detector->transposed ? a : b;
    box = detector->layout == END ? 6 : detector->layout == V5 ? 5 : 4;
    if (width < 0 && word == NULL)
        return pipe_fail(chain, "the model does not declare how many numbers a prediction has");
    if (width < 0)
        return INLAY_OK;
    if (detector->layout != END && detector->classes == 0) {
        if (known_extra < 0)
            return pipe_fail(chain, "the model does not name its classes (metadata 'names'): give labels=FILE");
        detector->classes = width - box - known_extra;
        if (detector->classes < 1)
            return pipe_fail(chain, "%lld numbers of a prediction leave none for classes", (long long)width);
    }
    detector->extra = width - box - (detector->layout == END ? 0 : detector->classes);
    return check_extra(chain, detector, width);
}

/* Separate boxes and logits become one list: scores by softmax if a class more than there are labels means "none", else
 * by the logistic function. */
static inlay_status join_logits(pipe_chain *chain, struct detector *detector)
{
    const bool target_has_boxes = has_boxes(chain, chain->target, detector->logits);
    const uint32_t boxes = target_has_boxes ? chain->target : detector->logits;
    const uint32_t logits = target_has_boxes ? detector->logits : chain->target;
    const int64_t count = size_of(chain, logits, 2);
    uint32_t *inputs = arena_array(&chain->model->arena, 2, sizeof *inputs);
    graph_node *node;
    inlay_status status;

    if (detector->classes == 0 || (count != detector->classes && count != detector->classes + 1))
        return pipe_fail(
            chain,
            "the model has %lld logits; whether one means 'no object' follows from the number of labels: give "
            "labels=FILE with %lld or %lld lines",
            (long long)count, (long long)count - 1, (long long)count);
    if (inputs == NULL)
        return no_memory(chain->diag, "for the steps");
    chain->makes = "scores";
    chain->value = logits;
    INLAY_TRY(pipe_node(chain, "", count == detector->classes ? "Sigmoid" : "Softmax", &node));
    if (count != detector->classes)
        INLAY_TRY(graph_set_attr_int(chain->graph, node, "axis", -1));
    inputs[0] = boxes;
    inputs[1] = chain->value;
    chain->makes = "predictions";
    INLAY_TRY(pipe_node(chain, "", "Concat", &node));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "axis", -1));
    node->info.inputs = inputs;
    node->info.input_count = 2;
    detector->extra = count - detector->classes;
    chain->makes = "boxes";
done:
    return status;
}

/* Masks are the logistic function of the sum of the prototypes, weighted by the numbers of each box. */
static inlay_status add_masks(pipe_chain *chain, const struct detector *detector, uint32_t numbers)
{
    uint32_t *inputs = arena_array(&chain->model->arena, 3, sizeof *inputs);
    const int64_t height = size_of(chain, detector->masks, 2), width = size_of(chain, detector->masks, 3);
    const uint32_t made = chain->value;
    graph_node *node;
    inlay_status status;

    if (inputs == NULL)
        return no_memory(chain->diag, "for the steps");
    if (height < 1 || width < 1)
        return pipe_fail(chain, "the model does not declare the size of its masks");
    inputs[0] = numbers;
    inputs[1] = detector->masks;
    chain->makes = "mask_sums";
    chain->value = numbers;
    INLAY_TRY(pipe_node(chain, "", "Einsum", &node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "equation", "nm,bmhw->nhw"));
    node->info.inputs = inputs;
    node->info.input_count = 2;
    chain->makes = "masks";
    INLAY_TRY(pipe_node(chain, "", "Sigmoid", &node));
    INLAY_TRY(pipe_output(chain, chain->value, INLAY_FLOAT, 3));
    chain->value = made;
done:
    return status;
}

inlay_status pipe_boxes(pipe_chain *chain)
{
    struct detector detector = { .layout = UNKNOWN, .masks = INLAY_NONE, .logits = INLAY_NONE };
    const char *word = pipe_word(chain);
    const bool known = word == NULL || strcmp(word, "v8") == 0 || strcmp(word, "v5") == 0 || strcmp(word, "end") == 0 ||
                       strcmp(word, "detr") == 0;
    uint32_t *inputs, *outputs;
    double score, iou;
    int64_t limit, sides[2];
    graph_node *node;
    inlay_status status;

    if (!known)
        return pipe_fail(chain, "'%s' is not v8, v5, end or detr", word);
    if (chain->kind != PIPE_NUMBERS)
        return pipe_fail(chain, "the step needs numbers, not a picture");
    INLAY_TRY(pipe_float(chain, "score", 0.25, &score));
    INLAY_TRY(pipe_float(chain, "iou", 0.45, &iou));
    INLAY_TRY(pipe_int(chain, "most", 300, 1, 30000, &limit));
    INLAY_TRY(read_metadata(chain, &detector));
    INLAY_TRY(read_shape(chain, &detector, word));
    if (detector.logits != INLAY_NONE)
        INLAY_TRY(join_logits(chain, &detector));
    if (detector.transposed) {
        chain->makes = "predictions";
        INLAY_TRY(pipe_node(chain, "", "Transpose", &node));
        chain->makes = "boxes";
        if (pipe_target_rank(chain) == 3) /* two axes are exchanged by default */
            INLAY_TRY(graph_set_attr_ints(chain->graph, node, "perm", (const int64_t[]){ 0, 2, 1 }, 3));
    }
    INLAY_TRY(pipe_node(chain, PIPE_DOMAIN, "YoloBoxes", &node));
    INLAY_TRY(graph_set_attr_string(chain->graph, node, "layout", layout_names[detector.layout]));
    INLAY_TRY(graph_set_attr_float(chain->graph, node, "score", score));
    INLAY_TRY(graph_set_attr_float(chain->graph, node, "iou", iou));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "most", limit));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "classes", detector.classes));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "points", detector.task == POSE ? detector.points : 0));
    INLAY_TRY(graph_set_attr_int(chain->graph, node, "rotated", detector.task == ORIENTED));
    INLAY_TRY(pipe_text_attr(chain, node, "labels", detector.labels));
    if (detector.layout == DETR) { /* DETR states boxes as fractions of the picture */
        picture_sides(chain, sides);
        if (sides[0] <= 0 || sides[1] <= 0)
            return pipe_fail(chain, "the size of the picture is unknown: add letterbox:HxW to --pre");
        INLAY_TRY(graph_set_attr_float(chain->graph, node, "scale_x", (double)sides[1]));
        INLAY_TRY(graph_set_attr_float(chain->graph, node, "scale_y", (double)sides[0]));
    }
    inputs = arena_array(&chain->model->arena, 2, sizeof *inputs);
    outputs = arena_array(&chain->model->arena, 3, sizeof *outputs);
    if (inputs == NULL || outputs == NULL)
        return no_memory(chain->diag, "for the steps");
    inputs[0] = node->info.inputs[0];
    inputs[1] = chain->place;
    node->info.inputs = inputs;
    node->info.input_count = chain->place != INLAY_NONE ? 2 : 1;
    outputs[0] = chain->value;
    outputs[1] = pipe_value(chain, "classes");
    outputs[2] = pipe_value(chain, detector.task == POSE       ? "keypoints"
                                   : detector.task == ORIENTED ? "angles"
                                                               : "mask_numbers");
    if (outputs[1] == INLAY_NONE || outputs[2] == INLAY_NONE)
        return no_memory(chain->diag, "for the steps");
    node->info.outputs = outputs;
    node->info.output_count = detector.task == DETECT ? 2 : 3;
    INLAY_TRY(pipe_output(chain, outputs[0], INLAY_FLOAT, 2));
    INLAY_TRY(pipe_output(chain, outputs[1], INLAY_STRING, 1));
    if (detector.task == POSE || detector.task == ORIENTED)
        INLAY_TRY(pipe_output(chain, outputs[2], INLAY_FLOAT, 2));
    if (detector.task == SEGMENT)
        INLAY_TRY(add_masks(chain, &detector, outputs[2]));
    chain->kind = PIPE_DONE;
done:
    return status;
}
