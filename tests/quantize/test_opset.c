/* The converter on every version of every operator, with each of its attributes set: a model converted to another opset
 * gives the same results, imports that opset and needs no later one, or the converter rejects it and names the
 * attribute.
 *
 *     test_quantize_opset           each version of the operator
 *     test_quantize_opset all       every opset from 7 on
 *     test_quantize_opset all DIR   also stores the converted models, for other programs to check */
#include "graph_script.h"
#include "base/element.h"
#include "model/model.h"
#include "opset_rows.inc"
#include "quantize/convert.h"
#include "modelkit/opset.h"
#include <math.h>
#include <unistd.h>

enum { MOST_VALUES = 8, MOST_TEXT = 1024, NEWEST = 28 };

/* Attributes that no model of opset_rows.inc sets, with the reason. */
static const struct {
    const char *op, *attr, *why;
} exempt[] = {
    { "Constant", "sparse_value", "the loader makes it dense" },
    { "ImageDecoder", "", "needs an image" },
    { "Loop", "", "bodies()" },
    { "Scan", "", "bodies()" },
    { "SequenceMap", "", "bodies()" },
    { "ImageScaler", "", "an operator of ONNX Runtime's, of one version" },
    { "SimplifiedLayerNormalization", "", "the same" },
    { "Affine", "", "an experimental operator, of one version" },
    { "Crop", "", "the same" },
    { "DynamicSlice", "", "the same" },
    { "ParametricSoftplus", "", "the same" },
    { "Scale", "", "the same" },
    { "ScaledTanh", "", "the same" },
    { "MeanVarianceNormalization", "across_channels", "of the experimental version 1" },
    { "MeanVarianceNormalization", "normalize_variance", "the same" },
    { "If", "then_branch", "every model of If has it" },
    { "If", "else_branch", "every model of If has it" },
    { "Optional", "type", "an Optional of a value has the type of the value" },
    { "StringSplit", "", "words of graph_script.h hold no spaces" },
};

/* Attribute values that only some opsets have. */
static const struct {
    const char *op, *attrs;
    int64_t first, last;
    bool renamed; /* the other opsets have it under another name */
} value_opsets[] = {
    { "GridSample", "mode=bilinear", 16, 19, true },
    { "GridSample", "mode=bicubic", 16, 19, true },
    { "GridSample", "mode=linear", 20, NEWEST, true },
    { "GridSample", "mode=cubic", 20, NEWEST, true },
    { "Resize", "coordinate_transformation_mode=tf_half_pixel_for_nn nearest_mode=floor", 11, 12, true },
    { "Resize", "coordinate_transformation_mode=tf_half_pixel_for_nn", 11, 12, false },
    { "Pad", "mode=wrap", 19, NEWEST, false },
    { "ScatterElements", "reduction=max", 18, NEWEST, false },
    { "ScatterElements", "reduction=min", 18, NEWEST, false },
    { "ScatterND", "reduction=max", 18, NEWEST, false },
    { "ScatterND", "reduction=min", 18, NEWEST, false },
    { "Resize", "coordinate_transformation_mode=half_pixel_symmetric", 19, NEWEST, false },
};

/* Attributes and values that no later opset supports. */
static const struct {
    const char *op, *attrs;
} removed_features[] = {
    { "BatchNormalization", "spatial=0" },
    { "Erf", "" }, /* for integers */
    { "Resize", "coordinate_transformation_mode=tf_half_pixel_for_nn" },
};

struct tally {
    char dir[64];
    inlay_options *options;
    uint32_t models, conversions, refusals, different, not_run, attributes;
    bool all, few;
    const char *keep; /* a folder for the converted models, or NULL */
};

/* Replaces "%" and "$" in a script. */
static void fill_in(const char *script, const char *op, const char *attrs, char *out)
{
    size_t n = 0;

    for (; *script != '\0'; script++) {
        const char *text = *script == '%' ? op : *script == '$' ? attrs : NULL;
        const size_t bytes = text == NULL ? 1 : strlen(text);

        assert_true(n + bytes + 1 < MOST_TEXT);
        memcpy(out + n, text == NULL ? script : text, bytes);
        n += bytes;
    }
    out[n] = '\0';
}

/* Writes the model and frees the wire. */
static void write_model(const struct tally *tally, struct wire *wire, char *path)
{
    (void)snprintf(path, PATH_MAX, "%s/model.onnx", tally->dir);
    mw_save(wire, path);
    wire_deinit(wire);
}

/* Writes the body of a Loop, a Scan or a SequenceMap that runs over the rows of x and adds them to s. */
static void body_model(struct wire *wire, const char *op, const char *attrs, int64_t opset)
{
    const bool loop = strcmp(op, "Loop") == 0, map = strcmp(op, "SequenceMap") == 0;
    wire_mark mark = mw_begin(wire, 8, opset), n;
    char copy[200], *next = NULL;
    mw_body body;

    mw_value(wire, MW_INPUT, "s", RIG_FLOAT, "2");
    mw_value(wire, MW_INPUT, "x", RIG_FLOAT, "2,2");
    if (loop) {
        mw_scalar(wire, "m", INLAY_INT64, 3);
        mw_scalar(wire, "c", INLAY_BOOL, 1);
    }
    if (map)
        mw_node(wire, "SequenceConstruct", "s,s", "l");
    n = mw_node_begin(wire, op, loop ? "m,c,s" : map ? "l,x" : "s,x", map ? "k" : "y,z");
    if (strcmp(op, "Scan") == 0)
        mw_attr_int(wire, "num_scan_inputs", 1);
    (void)snprintf(copy, sizeof copy, "%s", attrs);
    for (char *a = strtok_r(copy, " ", &next); a != NULL; a = strtok_r(NULL, " ", &next))
        script_attr(wire, a);
    body = mw_body_begin(wire, "body", "rows");
    if (loop) {
        mw_value(wire, MW_INPUT, "i", INLAY_INT64, "");
        mw_value(wire, MW_INPUT, "go", INLAY_BOOL, "");
    }
    mw_value(wire, MW_INPUT, "t", RIG_FLOAT, "2");
    if (!loop)
        mw_value(wire, MW_INPUT, "e", RIG_FLOAT, map ? "2,2" : "2");
    if (loop)
        mw_node(wire, "Identity", "go", "on");
    mw_node(wire, "Add", loop ? "t,x" : "t,e", "sum");
    mw_node(wire, "ReduceMax", "sum", "most");
    mw_node(wire, "Add", "t,most", "u");
    mw_node_int(wire, "Softmax", "sum", "o", "axis", 0);
    if (loop)
        mw_value(wire, MW_OUTPUT, "on", INLAY_BOOL, "");
    if (!map)
        mw_value(wire, MW_OUTPUT, "u", RIG_FLOAT, NULL);
    mw_value(wire, MW_OUTPUT, "o", RIG_FLOAT, NULL);
    mw_body_end(wire, body);
    wire_end(wire, n);
    if (map) {
        n = mw_node_begin(wire, "ConcatFromSequence", "k", "y");
        mw_attr_int(wire, "axis", 0);
        wire_end(wire, n);
    }
    mw_value(wire, MW_OUTPUT, "y", 0, NULL);
    if (!map)
        mw_value(wire, MW_OUTPUT, "z", 0, NULL);
    wire_end(wire, mark);
}

/* Does the list of names, separated by spaces, contain the name? */
static bool list_contains(const char *names, const char *name)
{
    const size_t bytes = strlen(name);

    for (; *names != '\0'; names += strcspn(names, " "), names += *names == ' ')
        if (strncmp(names, name, bytes) == 0 && (names[bytes] == ' ' || names[bytes] == '\0'))
            return true;
    return false;
}

struct outcome {
    inlay_session *session;
    inlay_context *context;
    inlay_diag diag;
    inlay_status status;
};

static void close_outcome(struct outcome *outcome)
{
    inlay_context_destroy(outcome->context);
    inlay_session_destroy(outcome->session);
}

static inlay_value *make_input(const inlay_io_info *info, uint64_t seed)
{
    static const inlay_str words[] = { { "abc", 3 }, { "ab", 2 }, { "c", 1 } };
    inlay_str texts[256];
    int64_t dims[INLAY_MAX_RANK], count = 1;
    inlay_value *value = NULL;

    for (uint32_t d = 0; d < info->rank; d++) {
        dims[d] = info->dims[d];
        count *= dims[d];
    }
    if (info->dtype == INLAY_STRING) {
        assert_in_range(count, 0, 256);
        for (int64_t i = 0; i < count; i++)
            texts[i] = words[i % 3];
        assert_int_equal(inlay_value_create_strings(info->rank, dims, texts, &value, NULL), INLAY_OK);
        return value;
    }
    assert_int_equal(inlay_value_create(info->dtype, info->rank, dims, &value, NULL), INLAY_OK);
    for (int64_t k = 0; k < inlay_value_count(value); k++) {
        const float x = random_unit(&seed);

        if (info->dtype == INLAY_FLOAT)
            ((float *)inlay_value_data(value))[k] = 6 * x - 3;
        else if (info->dtype == INLAY_DOUBLE)
            ((double *)inlay_value_data(value))[k] = 6 * (double)x - 3;
        else if (info->dtype == INLAY_FLOAT16)
            ((uint16_t *)inlay_value_data(value))[k] = element_half(6 * x - 3);
        else if (info->dtype == INLAY_BFLOAT16)
            ((uint16_t *)inlay_value_data(value))[k] = (uint16_t)(0x3f80 + 64 * (int)(5 * x)); /* 1, 1.5, 2, 3, 4 */
        else
            assert_true(element_put(info->dtype, inlay_value_data(value), k,
                                    (int64_t)(x * (info->dtype == INLAY_BOOL ? 2 : 5))));
    }
    return value;
}

static struct outcome run(const char *path, const inlay_options *options)
{
    struct outcome outcome = { .diag = INLAY_DIAG_INIT };

    keep_plugins();
    outcome.status = inlay_session_create(path, options, &outcome.session, &outcome.diag);
    if (outcome.status == INLAY_OK)
        outcome.status = inlay_context_create(outcome.session, &outcome.context, &outcome.diag);
    for (uint32_t i = 0; outcome.status == INLAY_OK && i < inlay_session_input_count(outcome.session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        inlay_value *value;

        assert_int_equal(inlay_session_input(outcome.session, i, &info), INLAY_OK);
        value = make_input(&info, 11 + i);
        outcome.status = inlay_context_set_input(outcome.context, i, value, &outcome.diag);
        inlay_value_unref(value);
    }
    if (outcome.status == INLAY_OK)
        outcome.status = inlay_context_run(outcome.context, NULL, &outcome.diag);
    return outcome;
}

static bool same_value(const inlay_value *got, const inlay_value *want)
{
    const inlay_dtype dtype = inlay_value_dtype(got);
    /* an operator that is expanded rounds more often */
    const double tolerance = dtype == INLAY_BFLOAT16 ? 1.6e-2 : dtype == INLAY_FLOAT16 ? 2e-3 : 2e-5;

    if (dtype != inlay_value_dtype(want) || inlay_value_rank(got) != inlay_value_rank(want))
        return false;
    for (uint32_t d = 0; d < inlay_value_rank(got); d++)
        if (inlay_value_dims(got)[d] != inlay_value_dims(want)[d])
            return false;
    if (dtype == INLAY_STRING) {
        for (int64_t i = 0; i < inlay_value_count(got); i++) {
            const inlay_str string = ((const inlay_str *)inlay_value_data(got))[i];
            const inlay_str y = ((const inlay_str *)inlay_value_data(want))[i];

            if (string.bytes != y.bytes || memcmp(string.data, y.data, string.bytes) != 0)
                return false;
        }
        return true;
    }
    for (int64_t i = 0; i < inlay_value_count(got); i++) {
        double x = 0, y = 0, xi = 0, yi = 0;

        assert_true(element_number(dtype, inlay_value_data(got), i, &x, &xi));
        assert_true(element_number(dtype, inlay_value_data(want), i, &y, &yi));
        if (isnan(x) != isnan(y) || (isinf(x) || isinf(y) ? x != y : fabs(x - y) > tolerance * fmax(1, fabs(x))) ||
            fabs(xi - yi) > tolerance)
            return false;
    }
    return true;
}

static bool same_outputs(const struct outcome *a, const struct outcome *b)
{
    const uint32_t count = inlay_session_output_count(a->session);

    if (count != inlay_session_output_count(b->session))
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!same_value(inlay_context_output(a->context, i), inlay_context_output(b->context, i)))
            return false;
    return true;
}

/* Does the message name one of the attributes, given as "a=1 b=2"? */
static bool names_one_of(const char *sentence, const char *attrs)
{
    for (; *attrs != '\0'; attrs += strcspn(attrs, " "), attrs += *attrs == ' ') {
        char name[64];

        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(attrs, "="), attrs);
        if (strstr(sentence, name) != NULL)
            return true;
    }
    return false;
}

static bool opset_has_value(const char *op, const char *attrs, int64_t opset, bool converted)
{
    for (size_t i = 0; i < sizeof value_opsets / sizeof value_opsets[0]; i++)
        if (strcmp(op, value_opsets[i].op) == 0 && strstr(attrs, value_opsets[i].attrs) != NULL)
            return (converted && value_opsets[i].renamed) ||
                   (opset >= value_opsets[i].first && opset <= value_opsets[i].last);
    return true;
}

/* Does the file import that opset, and does each operator exist in it? */
static bool imports_only(const char *path, int64_t opset)
{
    graph_model *model = NULL;
    bool is;

    assert_int_equal(model_load_path(path, NULL, &model, NULL), INLAY_OK);
    is = graph_model_opset(model, "ai.onnx") == opset && model->function_count == 0;
    for (uint32_t i = 0; i < model->main->node_count; i++) {
        const op_row *row = op_find("ai.onnx", model->main->nodes[i]->info.op_type.data, opset, NULL);

        /* opsets 18 to 20 have only GroupNormalization-18, which is deprecated */
        is =
            is && row != NULL && ((row->flags & OP_DEPRECATED) == 0 || strcmp(row->op_type, "GroupNormalization") == 0);
    }
    graph_model_destroy(model);
    return is;
}

static bool is_removed(const char *op, const char *attrs)
{
    for (size_t i = 0; i < sizeof removed_features / sizeof removed_features[0]; i++)
        if (strcmp(op, removed_features[i].op) == 0 && strcmp(attrs, removed_features[i].attrs) == 0)
            return true;
    return false;
}

/* plain: opsets to which the model converts without the attributes. Returns whether this model converts. */
static bool convert(struct tally *tally, const char *what, const char *path, const struct outcome *before,
                    const char *op, const char *attrs, int64_t own, int64_t opset, bool plain)
{
    struct scratch scratch = { .dir = "" };
    inlay_diag diag = INLAY_DIAG_INIT;
    char converted[PATH_MAX];
    const inlay_status status = ((void)snprintf(scratch.dir, sizeof scratch.dir, "%s", tally->dir),
                                 convert_file(path, tally->options, opset, &scratch, converted, &diag));
    struct outcome after;

    tally->conversions++;
    if (status == INLAY_UNSUPPORTED) {
        tally->refusals++;
        if ((*attrs != '\0' && plain && !names_one_of(diag.text, attrs)) || (opset >= own && !is_removed(op, attrs))) {
            print_error("%s to opset %lld is rejected, or the message does not name the attribute: %s\n", what,
                        (long long)opset, diag.text);
            tally->different++;
        }
        return false;
    }
    if (status != INLAY_OK) {
        print_error("%s to opset %lld: %s\n", what, (long long)opset, diag.text);
        tally->different++;
        return false;
    }
    after = run(converted, tally->options);
    if (after.status != INLAY_OK)
        print_error("%s to opset %lld does not run: %s\n", what, (long long)opset, after.diag.text);
    else if (!same_outputs(before, &after))
        print_error("%s to opset %lld gives other results\n", what, (long long)opset);
    else if (!imports_only(converted, opset))
        print_error("%s to opset %lld imports another opset, or uses operators that do not exist in it\n", what,
                    (long long)opset);
    else if (!opset_has_value(op, attrs, opset, true))
        print_error("%s to opset %lld: that opset has no such value\n", what, (long long)opset);
    else
        tally->different--;
    tally->different++;
    close_outcome(&after);
    if (tally->keep != NULL) {
        char kept[PATH_MAX];

        (void)snprintf(kept, sizeof kept, "%s/%05u %s to %lld.onnx", tally->keep, tally->conversions, what,
                       (long long)opset);
        assert_int_equal(rename(converted, kept), 0);
    }
    return true;
}

/* Is the conversion to this opset tested? The first opset of each version of the operator is, and some opsets without
 * the operator; for other types only the first and the last. */
static bool is_tried(const struct tally *tally, const op_row *row, int64_t opset, int64_t own)
{
    static const int64_t often[] = { 9, 12, 17, 20 };
    const op_row *there = op_find("ai.onnx", row->op_type, opset, NULL);

    if (tally->all || opset == OPSET_LOWEST || opset == NEWEST)
        return true;
    if (tally->few)
        return false;
    for (size_t i = 0; there == NULL && i < sizeof often / sizeof often[0]; i++)
        if (often[i] == opset)
            return true;
    return opset == own - 1 || (there != NULL && there != op_find("ai.onnx", row->op_type, opset - 1, NULL));
}

/* Converts one model to each opset; script NULL: body_model(). plain: [NEWEST + 1], results of the model without
 * attributes; written for that model, read for others. Returns false if the model itself does not run. */
static bool try_model(struct tally *tally, const op_row *row, const char *script, const char *attrs, bool *plain)
{
    const int64_t own = row->since_version < OPSET_LOWEST ? OPSET_LOWEST : row->since_version;
    char path[PATH_MAX], text[MOST_TEXT], what[160];
    struct wire wire = { 0 };
    struct outcome before;
    bool runs;

    (void)snprintf(what, sizeof what, "%s-%u %s", row->op_type, row->since_version, attrs);
    if (script == NULL) {
        body_model(&wire, row->op_type, attrs, own);
    } else {
        fill_in(script, row->op_type, attrs, text);
        script_model(&wire, own, text);
    }
    write_model(tally, &wire, path);
    before = run(path, tally->options);
    runs = before.status == INLAY_OK;
    if (!runs && *attrs != '\0')
        print_error("%s does not run: %s\n", what, before.diag.text);
    tally->models += runs;
    for (int64_t opset = OPSET_LOWEST; runs && opset <= NEWEST; opset++)
        if (is_tried(tally, row, opset, own)) {
            const bool done = convert(tally, what, path, &before, row->op_type, attrs, own, opset, plain[opset]);

            if (*attrs == '\0')
                plain[opset] = done;
        }
    close_outcome(&before);
    return runs;
}

static void *heap_schema(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

/* Does the operator version have each of the attributes, given as "a=1 b=2"? */
static bool row_has(const op_schema *schema, const char *attrs)
{
    for (; *attrs != '\0'; attrs += strcspn(attrs, " "), attrs += *attrs == ' ') {
        bool found = false;

        for (uint32_t i = 0; i < schema->attr_count; i++)
            found |= strlen(schema->attrs[i].name) == strcspn(attrs, "=") &&
                     strncmp(schema->attrs[i].name, attrs, strcspn(attrs, "=")) == 0;
        if (!found)
            return false;
    }
    return true;
}

static bool sets_attribute(const char *text, const char *attr)
{
    const size_t bytes = strlen(attr);

    for (const char *at = strstr(text, attr); at != NULL; at = strstr(at + 1, attr))
        if (at[bytes] == '=' && (at == text || at[-1] == ' ' || at[-1] == '|' || at[-1] == ':'))
            return true;
    return false;
}

static bool is_exempt(const char *op, const char *attr)
{
    for (size_t i = 0; i < sizeof exempt / sizeof exempt[0]; i++)
        if (strcmp(op, exempt[i].op) == 0 && (exempt[i].attr[0] == '\0' || strcmp(attr, exempt[i].attr) == 0))
            return true;
    return false;
}

/* Returns the newest form, among those that are not later than the row, for each shape of input. */
static uint32_t newest_from(const op_row *row)
{
    uint32_t from = 0;

    for (size_t i = 0; i < OPSET_ROW_COUNT; i++)
        if (list_contains(opset_rows[i].operators, row->op_type) && opset_rows[i].from <= row->since_version &&
            opset_rows[i].from > from)
            from = opset_rows[i].from;
    return from;
}

/* Converts the same models with other types of x, if they run. */
static void try_types(struct tally *tally, const op_row *row, const char *script)
{
    static const char *const types[] = { "float16", "bfloat16", "double", "int64", "int8", "uint8", "bool", "string" };
    char text[MOST_TEXT];

    if (strncmp(script, "x : ", 4) != 0 || strchr("123456789", script[4]) == NULL)
        return;
    tally->few = true;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        bool plain[NEWEST + 1] = { false };

        (void)snprintf(text, sizeof text, "x : %s %s", types[i], script + 4);
        (void)try_model(tally, row, text, "", plain);
    }
    tally->few = false;
}

static void try_row(struct tally *tally, const op_row *row)
{
    struct arena arena = { 0 };
    op_schema schema;
    uint64_t covered = 0;
    uint32_t models = 0;

    assert_int_equal(op_schema_parse(row->signature, heap_schema, &arena, &schema, NULL), INLAY_OK);
    if (newest_from(row) == 0 && !is_exempt(row->op_type, "")) {
        print_error("%s-%u: opset_rows.inc has no model\n", row->op_type, row->since_version);
        tally->not_run++;
    }
    for (size_t i = 0; i < OPSET_ROW_COUNT; i++) {
        bool plain[NEWEST + 1] = { false };
        const char *variant = opset_rows[i].variants;

        if (!list_contains(opset_rows[i].operators, row->op_type) || opset_rows[i].from > row->since_version)
            continue;
        if (try_model(tally, row, opset_rows[i].script, "", plain))
            models++;
        else if (opset_rows[i].from < newest_from(row))
            continue; /* the form for earlier versions */
        try_types(tally, row, opset_rows[i].script);
        while (*variant != '\0') {
            const size_t bytes = strcspn(variant, "|");
            char attrs[200];
            uint32_t from = 0;

            if (*variant == '@')
                from = (uint32_t)strtoul(variant + 1, NULL, 10);
            (void)snprintf(attrs, sizeof attrs, "%.*s", (int)(bytes - (*variant == '@' ? 4 : 0)),
                           variant + (*variant == '@' ? 4 : 0));
            if (from <= row->since_version && row_has(&schema, attrs) &&
                opset_has_value(row->op_type, attrs, row->since_version, false) &&
                try_model(tally, row, opset_rows[i].script, attrs, plain)) {
                models++;
                for (uint32_t k = 0; k < schema.attr_count; k++)
                    covered |= (uint64_t)(sets_attribute(attrs, schema.attrs[k].name) ||
                                          sets_attribute(opset_rows[i].script, schema.attrs[k].name))
                               << k;
            }
            variant += bytes + (variant[bytes] == '|');
        }
        for (uint32_t k = 0; k < schema.attr_count; k++)
            if (sets_attribute(opset_rows[i].script, schema.attrs[k].name) && models > 0)
                covered |= UINT64_C(1) << k;
    }
    for (uint32_t k = 0; k < schema.attr_count && (row->flags & OP_DEPRECATED) == 0; k++) {
        if ((covered >> k & 1) == 0 && !is_exempt(row->op_type, schema.attrs[k].name) &&
            strcmp(schema.attrs[k].name, "consumed_inputs") != 0) {
            print_error("%s-%u: no model sets attribute %s\n", row->op_type, row->since_version, schema.attrs[k].name);
            tally->not_run++;
        }
        tally->attributes += covered >> k & 1;
    }
    if (models == 0 && newest_from(row) > 0 && (row->flags & OP_DEPRECATED) == 0) {
        print_error("%s-%u: no model runs\n", row->op_type, row->since_version);
        tally->not_run++;
    }
    arena_deinit(&arena);
}

/* Scan-8 has batches, which no later opset supports. */
static bool is_first_scan(const op_row *row)
{
    return strcmp(row->op_type, "Scan") == 0 && row->since_version < 9;
}

/* Does an opset from the lowest on have this version? */
static bool is_visible(const op_row *row)
{
    for (int64_t opset = OPSET_LOWEST; opset <= NEWEST; opset++)
        if (op_find("ai.onnx", row->op_type, opset, NULL) == row)
            return true;
    return false;
}

static bool every_opset;
static const char *kept_folder;

static void try_bodies(struct tally *tally, const op_row *row)
{
    static const char *const scan[] = { "scan_input_directions=1,", "scan_output_directions=1,", "scan_input_axes=1,",
                                        "scan_output_axes=1,", "scan_input_axes=-1," };
    bool plain[NEWEST + 1] = { false };

    if (!try_model(tally, row, NULL, "", plain)) {
        print_error("%s-%u: its model does not run\n", row->op_type, row->since_version);
        tally->not_run++;
    }
    for (size_t i = 0; strcmp(row->op_type, "Scan") == 0 && i < sizeof scan / sizeof scan[0]; i++)
        if (row->since_version >= 11 || strchr(scan[i], '-') == NULL)
            (void)try_model(tally, row, NULL, scan[i], plain);
}

static void every_attribute_of_every_row(void **state)
{
    uint32_t count, rows = 0;
    const op_table *const *tables = op_tables(&count);
    /* thousands of small files, which need no disk */
    struct tally tally = { .dir = "/dev/shm/inlay-opset-XXXXXX", .all = every_opset, .keep = kept_folder };
    struct scratch scratch = { .dir = "" };

    (void)state;
    assert_int_equal(op_domain_newest("ai.onnx"), NEWEST);
    if (mkdtemp(tally.dir) == NULL) {
        (void)strcpy(tally.dir, "/tmp/inlay-opset-XXXXXX");
        assert_non_null(mkdtemp(tally.dir));
    }
    assert_int_equal(inlay_options_create(&tally.options, NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(tally.options, "providers", "reference", NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(tally.options, "level", "0", NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(tally.options, "cache_dir", "", NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(tally.options, "intra_threads", "1", NULL), INLAY_OK);
    assert_int_equal(inlay_options_set(tally.options, "strict_model", "1", NULL), INLAY_OK);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t row = 0; strcmp(tables[i]->domain, "ai.onnx") == 0 && row < tables[i]->count; row++)
            if (is_visible(&tables[i]->rows[row])) {
                try_row(&tally, &tables[i]->rows[row]);
                if (list_contains("Loop Scan SequenceMap", tables[i]->rows[row].op_type) &&
                    !is_first_scan(&tables[i]->rows[row]))
                    try_bodies(&tally, &tables[i]->rows[row]);
                rows++;
            }
    inlay_options_destroy(tally.options);
    (void)snprintf(scratch.dir, sizeof scratch.dir, "%s", tally.dir);
    scratch_remove(&scratch);
    (void)printf("%u versions of operators, %u attributes of them, %u models, %u conversions, %u refusals, "
                 "%u differences, %u without a model\n",
                 rows, tally.attributes, tally.models, tally.conversions, tally.refusals, tally.different,
                 tally.not_run);
    assert_int_equal(tally.different, 0);
    assert_int_equal(tally.not_run, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_attribute_of_every_row),
    };

    kept_folder = argc > 2 ? argv[2] : NULL;
    every_opset = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
