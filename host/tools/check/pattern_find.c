/* Finds the groups of nodes that a provider offers together: see patterns.h. */
#include "base/element.h"
#include "check/patterns.h"
#include "inlay/check.h"
#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCES = 320, GROWN_NODES = 5, MOST_ROW = 400 };

/* How the inputs of a second operator that read nothing of the first are set. */
enum { OTHERS_AS_THEY_ARE, OTHERS_SHARED, OTHERS_ROW, OTHER_WAYS };

static const char *const rows[] = {
#define PATTERN(nodes) nodes,
#include "check/patterns.def"
#undef PATTERN
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const struct pattern_source *patterns_source(const struct patterns *patterns, const char *op_type)
{
    for (uint32_t i = 0; i < patterns->source_count; i++)
        if (patterns->sources[i].source.own == NULL && strcmp(patterns->sources[i].source.op_type, op_type) == 0 &&
            strcmp(patterns->sources[i].source.domain, "ai.onnx") == 0)
            return &patterns->sources[i];
    return NULL;
}

struct taking {
    struct patterns *patterns;
    struct pattern_source *to;
};

/* Takes one case of each rank in the usual type. */
static bool take_usual(void *user, op_case *entry)
{
    const struct taking *taking = user;
    struct pattern_source *to = taking->to;
    const struct fixture *fixture = taking->patterns->regions->fixture;
    inlay_diag diag = INLAY_DIAG_INIT;
    harness_answer answer;
    case_instance built;

    if (to->count > 0 && (entry->in[0].dtype != to->usual[0].in[0].dtype || entry->in_count == 0))
        return false;
    for (uint32_t i = 0; i < to->count; i++)
        if (to->usual[i].in[0].rank == entry->in[0].rank)
            return true;
    if (entry->in_count == 0 || entry->in[0].count == 0 ||
        case_graph(entry, &fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    harness_assess(taking->patterns->regions->provider, &built, &answer);
    case_instance_deinit(&built);
    to->is_known |=
        answer.kind == HARNESS_OFFERED || (answer.kind == HARNESS_REFUSED && answer.code != INLAY_REFUSE_OPERATOR);
    to->usual[to->count++] = *entry;
    entry->arena = (struct arena){ 0 };
    return to->count < USUAL_CASES;
}

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static bool take_source(void *user, const case_source *source)
{
    struct patterns *patterns = user;
    const case_range range = { .seed = patterns->regions->check->args->seed, .scale = 1, .quick = true };
    struct pattern_source *to = &patterns->sources[patterns->source_count];
    struct taking taking = { patterns, to };
    const op_row *row = op_find(source->domain, source->op_type, source->opset, NULL);

    if (patterns->source_count == MOST_SOURCES)
        return false;
    if (source->random)
        return true;
    to->source = *source;
    if ((source->own == NULL && row == NULL) ||
        op_schema_parse(source->own != NULL ? source->own->signature : row->signature, schema_alloc, &patterns->arena,
                        &to->schema, NULL) != INLAY_OK)
        return true;
    to->source.schema = &to->schema;
    check_tick(patterns->regions->check);
    generate_cases(&to->source, &range, take_usual, &taking);
    patterns->source_count += to->count > 0;
    return true;
}

/* The types and sizes of the results of part j, without their elements. */
static bool infer_result(struct regions *regions, uint32_t j)
{
    struct part *part = &regions->parts[j];
    inlay_diag diag = INLAY_DIAG_INIT;
    case_instance built;

    if (case_graph(&part->entry, &regions->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    part->result.out_count = built.output_count;
    for (uint32_t o = 0; o < built.output_count; o++) {
        const inlay_value_state *state = &built.states[built.outputs[o]];
        harness_output *output = &part->result.out[o];

        output->dtype = state->dtype;
        output->rank = state->rank <= CASE_RANK ? state->rank : 0;
        output->count = 1;
        for (uint32_t d = 0; d < output->rank; d++) {
            output->dims[d] = state->dims[d];
            output->count *= state->dims[d];
        }
        if (state->rank > CASE_RANK || output->count < 0)
            part->result.out_count = 0;
    }
    case_instance_deinit(&built);
    return part->result.out_count > 0;
}

static bool infer_parts(struct regions *regions)
{
    for (uint32_t j = 0; j < regions->part_count; j++)
        if (!patterns_fit(regions, j) || !patterns_fill(regions, j) || !infer_result(regions, j))
            return false;
    return true;
}

static bool is_wanted(const struct regions *regions)
{
    const char *match = regions->check->args->op;

    for (uint32_t j = 0; j < regions->part_count; j++)
        if (regions->parts[j].inside && (match == NULL || fnmatch(match, regions->parts[j].entry.op_type, 0) == 0))
            return true;
    return false;
}

/* Writes the operators of the region, as region_name() does, but with the numbers of the nodes in the region. */
static void name_group(const struct regions *regions, char *text, size_t bytes)
{
    uint32_t numbers[MAX_PARTS], count = 0;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t j = 0; j < regions->part_count && used < bytes; j++) {
        const struct part *part = &regions->parts[j];

        if (!part->inside)
            continue;
        numbers[j] = count++;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", count > 1 ? " " : "", part->entry.op_type);
        for (uint32_t i = 0; i < part->entry.in_count && used < bytes; i++)
            if (part->producer[i] != INLAY_NONE && regions->parts[part->producer[i]].inside)
                used += (size_t)snprintf(text + used, bytes - used, "<%u", numbers[part->producer[i]]);
            else if (part->shared[i] != INLAY_NONE && regions->parts[part->shared[i]].inside)
                used += (size_t)snprintf(text + used, bytes - used, "=%u", numbers[part->shared[i]]);
    }
}

/* Stores the parts as a pattern, unless there is one with the same nodes. */
static void add_pattern(struct patterns *patterns)
{
    struct regions *regions = patterns->regions;
    struct pattern *pattern = &patterns->list[patterns->count];

    if (patterns->count == MOST_PATTERNS || !is_wanted(regions))
        return;
    name_group(regions, pattern->name, sizeof pattern->name);
    for (uint32_t i = 0; i < patterns->count; i++)
        if (strcmp(patterns->list[i].name, pattern->name) == 0)
            return;
    pattern->parts = calloc(regions->part_count, sizeof *pattern->parts);
    if (pattern->parts == NULL)
        return;
    memcpy(pattern->parts, regions->parts, regions->part_count * sizeof *pattern->parts);
    pattern->count = regions->part_count;
    for (uint32_t j = 0; j < pattern->count; j++) {
        memset(&pattern->parts[j].result, 0, sizeof pattern->parts[j].result);
        pattern->parts[j].owns_entry = regions->parts[j].owns_entry;
        regions->parts[j].owns_entry = false; /* the pattern owns the elements now */
    }
    patterns->count++;
}

/* Shows the graph of the parts to the provider. True: it offers a group. */
static bool ask(struct patterns *patterns)
{
    struct regions *regions = patterns->regions;
    case_instance built = { .model = NULL };
    bool found = false;

    if (region_make_model(regions, &built) && region_make_states(&built) && region_assess(regions, &built))
        for (uint32_t i = 0; i < regions->offer_count; i++)
            if (regions->offers[i].node_count > 1 && region_choose_offer(regions, &built.snapshot, i)) {
                found = true;
                add_pattern(patterns);
            }
    case_instance_deinit(&built);
    return found;
}

/* Drops the parts from `count` on. */
static void drop_from(struct regions *regions, uint32_t count)
{
    while (regions->part_count > count) {
        struct part *part = &regions->parts[--regions->part_count];

        if (part->owns_entry)
            case_deinit(&part->entry);
    }
}

/* Sets the inputs of the last part that are not linked. False: this way is no other graph than an earlier one. */
static bool set_others(struct regions *regions, uint32_t way, uint32_t linked)
{
    struct part *part = &regions->parts[regions->part_count - 1];
    const struct part *before = &regions->parts[0];
    bool changed = false;

    for (uint32_t i = 0; i < part->entry.in_count && way != OTHERS_AS_THEY_ARE; i++) {
        case_tensor *tensor = &part->entry.in[i];

        if (i == linked || tensor->dtype != part->entry.in[linked].dtype || tensor->given_count > 0 || tensor->constant)
            continue;
        changed = true;
        if (way == OTHERS_SHARED) {
            part->shared[i] = 0;
            part->shared_input[i] = 0;
        } else {
            part->form[i] = FORM_ROW;
            tensor->constant = true;
        }
    }
    return changed ? way != OTHERS_SHARED || !before->entry.in[0].constant : way == OTHERS_AS_THEY_ARE;
}

/* Appends each following operator behind the last part and asks for each graph. usual: only those of the list and those
 * that the provider knows. */
static void ask_followers(struct patterns *patterns, bool usual, uint32_t ways)
{
    struct regions *regions = patterns->regions;
    const uint32_t last = regions->part_count - 1;
    const harness_output *output = &regions->parts[last].result.out[0];

    for (uint32_t s = 0; s < patterns->source_count && patterns->count < MOST_PATTERNS; s++) {
        const struct pattern_source *source = &patterns->sources[s];

        if (usual && !source->is_known)
            continue;
        check_tick(regions->check);
        for (uint32_t c = 0; c < source->count; c++) {
            const op_case *entry = &source->usual[c];
            const bool takes_any_rank = !generate_has_recipe(entry->op_type);

            if (c > 0 && takes_any_rank)
                break;
            for (uint32_t i = 0; i < entry->in_count && i < 3; i++) {
                if (entry->in[i].given_count > 0 || entry->in[i].dtype == INLAY_UNDEFINED ||
                    (!takes_any_rank && entry->in[i].rank != output->rank))
                    continue;
                for (uint32_t way = 0; way < ways; way++) {
                    if (patterns_append(regions, entry, i, last) && set_others(regions, way, i) &&
                        patterns_fit(regions, last + 1) && patterns_fill(regions, last + 1))
                        (void)ask(patterns);
                    drop_from(regions, last + 1);
                }
            }
        }
    }
}

/* Changes the floats of all parts to another type. */
static void retype(struct part *part, inlay_dtype dtype)
{
    for (uint32_t i = 0; i < part->entry.in_count; i++)
        if (part->entry.in[i].dtype == INLAY_FLOAT)
            part->entry.in[i].dtype = dtype;
}

static void find_pairs(struct patterns *patterns, inlay_dtype dtype, bool usual)
{
    struct regions *regions = patterns->regions;

    for (uint32_t s = 0; s < patterns->source_count && patterns->count < MOST_PATTERNS; s++) {
        const struct pattern_source *source = &patterns->sources[s];

        if (usual && !source->is_known)
            continue;
        if (patterns_append(regions, &source->usual[0], 0, INLAY_NONE)) {
            retype(&regions->parts[0], dtype);
            if (infer_parts(regions))
                ask_followers(patterns, usual, OTHER_WAYS);
        }
        region_drop_parts(regions);
    }
}

/* Longer groups: what was found with one more node behind. */
static void grow(struct patterns *patterns, bool usual)
{
    struct regions *regions = patterns->regions;

    for (uint32_t p = 0; p < patterns->count && patterns->count < MOST_PATTERNS; p++) {
        const struct pattern *pattern = &patterns->list[p];

        if (pattern->count < GROWN_NODES && patterns_place(regions, pattern->parts, pattern->count) &&
            infer_parts(regions))
            ask_followers(patterns, usual, 1);
        region_drop_parts(regions);
    }
}

static bool keep_case(void *user, op_case *entry)
{
    op_case *to = user;

    *to = *entry;
    entry->arena = (struct arena){ 0 };
    return false;
}

/* Reads "<0" or "@1.2" as a link of input i. False: it is none. */
static bool read_link(struct part *part, uint32_t i, const char *text)
{
    char *end;
    uint32_t node;

    if ((*text != '<' && *text != '@') || i >= CASE_INPUTS)
        return false;
    node = (uint32_t)strtoul(text + 1, &end, 10);
    if (*text == '<') {
        part->producer[i] = node;
    } else {
        part->shared[i] = node;
        part->shared_input[i] = (uint32_t)strtoul(end + 1, NULL, 10);
    }
    return true;
}

/* Adds the node of a row. Returns the text behind it; NULL: it is no operator of this version. */
static const char *read_node(struct patterns *patterns, const char *at)
{
    const case_range range = { .seed = patterns->regions->check->args->seed, .scale = 1 };
    struct regions *regions = patterns->regions;
    struct part *part = &regions->parts[regions->part_count];
    const char *end = strstr(at, " | ");
    char node[MOST_ROW], inputs[MOST_ROW] = "", *op, *list, *attrs, *rest = NULL, *input;
    const struct pattern_source *source;
    uint32_t count = 0;

    end = end != NULL ? end : at + strlen(at);
    if ((size_t)(end - at) >= sizeof node || regions->part_count == MAX_PARTS)
        return NULL;
    memcpy(node, at, (size_t)(end - at));
    node[end - at] = '\0';
    op = strtok_r(node, " ", &rest);
    list = strtok_r(NULL, " ", &rest);
    attrs = rest != NULL ? rest : (char *)"";
    source = patterns_source(patterns, op);
    if (source == NULL)
        return NULL;
    region_part_init(part);
    for (input = strtok_r(list, ";", &rest); input != NULL; input = strtok_r(NULL, ";", &rest), count++) {
        const size_t used = strlen(inputs);

        (void)snprintf(inputs + used, sizeof inputs - used, "%s%s", count > 0 ? ";" : "",
                       read_link(part, count, input) ? "()" : input);
    }
    if (generate_one(&source->source, &range, inputs, NULL, 1, attrs, keep_case, &part->entry))
        return NULL;
    for (uint32_t i = 0; i < part->entry.in_count; i++)
        part->entry.in[i].data = NULL;
    regions->part_count++;
    return *end != '\0' ? end + 3 : end;
}

static void find_rows(struct patterns *patterns)
{
    struct regions *regions = patterns->regions;

    for (uint32_t row = 0; row < ROW_COUNT; row++) {
        const char *at = rows[row];

        check_tick(regions->check);
        while (at != NULL && *at != '\0')
            at = read_node(patterns, at);
        if (at != NULL && infer_parts(regions))
            (void)ask(patterns);
        region_drop_parts(regions);
    }
}

bool patterns_find(struct patterns *patterns, const inlay_operator *const *custom, uint32_t custom_count)
{
    static const inlay_dtype types[] = { INLAY_FLOAT, INLAY_FLOAT16, INLAY_BFLOAT16 };
    bool usual = false;

    patterns->sources = calloc(MOST_SOURCES, sizeof *patterns->sources);
    if (patterns->sources == NULL)
        return false;
    generate_sources(custom, custom_count, NULL, true, take_source, patterns);
    for (uint32_t s = 0; s < patterns->source_count && patterns->regions->check->args->quick; s++)
        usual |= patterns->sources[s].is_known;
    find_rows(patterns);
    for (size_t i = 0; i < sizeof types / sizeof types[0] && (i == 0 || patterns->count == 0); i++)
        find_pairs(patterns, types[i], usual);
    grow(patterns, usual);
    return true;
}

void patterns_deinit(struct patterns *patterns)
{
    for (uint32_t p = 0; p < patterns->count; p++) {
        for (uint32_t j = 0; j < patterns->list[p].count; j++)
            if (patterns->list[p].parts[j].owns_entry)
                case_deinit(&patterns->list[p].parts[j].entry);
        free(patterns->list[p].parts);
    }
    for (uint32_t s = 0; s < patterns->source_count; s++)
        for (uint32_t i = 0; i < patterns->sources[s].count; i++)
            case_deinit(&patterns->sources[s].usual[i]);
    free(patterns->sources);
    arena_deinit(&patterns->arena);
}

uint32_t patterns_count(struct check *check, const struct fixture *fixture, const loaded_provider *provider)
{
    struct regions *regions = calloc(1, sizeof *regions);
    struct patterns *patterns = calloc(1, sizeof *patterns);
    const inlay_operator *custom[64];
    uint32_t count = 0;

    if (regions != NULL && patterns != NULL) {
        *regions = (struct regions){ .check = check, .name = "patterns", .fixture = fixture, .provider = provider };
        patterns->regions = regions;
        if (patterns_find(patterns, custom, fixture_operators(fixture, custom, 64)))
            count = patterns->count;
        patterns_deinit(patterns);
    }
    free(patterns);
    free(regions);
    return count;
}
