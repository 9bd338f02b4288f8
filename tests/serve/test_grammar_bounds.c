/* Schemas, regular expressions and GBNF that approach each limit of grammars from both sides: each has a grammar, or a
 * sentence that names the limit, and takes no more steps and memory than is stated.
 * INLAY_SCHEMAS=COUNT tries COUNT of them, and prints their processor times. */
#include "base/strbuf.h"
#include "random.h"
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_regex.h"
#include "texts/grammar/grammar_schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "cmocka_all.h"

enum { MEGABYTES = 64, LARGEST = 1 << 20, SMALLEST = 1 << 10 };

static uint64_t seed = 20261129;

static size_t below(size_t count)
{
    return count > 0 ? random_below(&seed, count) : 0;
}

/* A number of parts of `part_bytes` bytes that make a text of 1 KB to 1 MB. All magnitudes are equally frequent. */
static size_t some(size_t part_bytes)
{
    const size_t least = (size_t)SMALLEST << below(10);

    return 1 + (least + below(least)) / part_bytes;
}

static json_t *named(const char *prefix, size_t number)
{
    return json_sprintf("%s%zu", prefix, number);
}

static void set(json_t *object, const char *prefix, size_t number, json_t *value)
{
    char name[64];

    (void)snprintf(name, sizeof name, "%s%zu", prefix, number);
    (void)json_object_set_new(object, name, value);
}

/* A number or a text, as a value. */
static json_t *constant(void)
{
    return below(2) == 0 ? json_integer((json_int_t)below(1000000000)) : named("value ", below(1000000000));
}

/* Numbers and strings, most of them unlike all others. */
static json_t *scalar(void)
{
    static const char *const formats[] = { "date-time", "uri", "ipv6", "email", "duration", "regex" };
    const json_int_t low = (json_int_t)below(1 << 30);

    switch (below(9)) {
    case 0:
        return json_pack("{s:s}", "type", "integer");
    case 1:
        return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", -low, "maximum", low + 7);
    case 2:
        return json_pack("{s:s, s:f, s:f}", "type", "number", "exclusiveMinimum", 0.125, "maximum", (double)low / 64);
    case 3:
        return json_pack("{s:s, s:i}", "type", "integer", "multipleOf", (int)below(below(9) == 0 ? 4096 : 50) + 1);
    case 4:
        return json_pack("{s:s, s:s}", "type", "string", "format", formats[below(6)]);
    case 5:
        return json_pack("{s:s, s:I, s:I}", "type", "string", "minLength", low % 300, "maxLength", low % 300 + 200);
    case 6:
        return json_pack("{s:s, s:o}", "type", "string", "pattern", json_sprintf("^[a-z]{1,%d}x", (int)(low % 90) + 1));
    case 7:
        return json_pack("{s:[o, o, o]}", "enum", constant(), constant(), constant());
    default:
        return json_pack("{s:[s, s, s]}", "type", "string", "null", "number");
    }
}

static json_t *object_of(size_t count)
{
    json_t *properties = json_object(), *required = json_array();
    const size_t share = below(4);

    for (size_t i = 0; i < count; i++) {
        set(properties, "p", i, scalar());
        if (share > 0 && below(3) < share)
            (void)json_array_append_new(required, named("p", i));
    }
    return json_pack("{s:s, s:o, s:o}", "type", "object", "properties", properties, "required", required);
}

/* The kinds. Each returns a schema of `some` parts. */
static json_t *properties(void)
{
    json_t *all = object_of(some(40));

    if (below(3) == 0)
        (void)json_object_set_new(all, below(2) == 0 ? "minProperties" : "maxProperties",
                                  json_integer((int)below(220)));
    if (below(3) == 0)
        (void)json_object_set_new(all, "additionalProperties", scalar());
    if (below(4) == 0)
        (void)json_object_set_new(all, "patternProperties", json_pack("{s:{}, s:{}}", "^p1.*9$", "z"));
    return all;
}

static json_t *alternatives(void)
{
    json_t *list = json_array();
    const size_t count = some(200), kind = below(4);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, kind == 0   ? json_pack("{s:o}", "const", named("", i))
                                          : kind == 1 ? object_of(2 + below(4))
                                          : kind == 2 ? scalar()
                                                      : json_pack("{s:{s:{s:o}}, s:[s]}", "properties", "kind", "const",
                                                                  named("k", i), "required", "kind"));
    return json_pack("{s:o}", below(2) == 0 ? "anyOf" : "oneOf", list);
}

static json_t *nested(void)
{
    json_t *inner = scalar();
    const size_t kind = below(5), depth = below(kind == 3 ? 12 : 150);

    for (size_t i = 0; i < depth; i++)
        inner = kind == 0   ? json_pack("{s:{s:o}}", "properties", "inner", inner)
                : kind == 1 ? json_pack("{s:s, s:o}", "type", "array", "items", inner)
                : kind == 2 ? json_pack("{s:[o, {s:s}]}", "anyOf", inner, "type", "null")
                : kind == 3 ? json_pack("{s:[o, O]}", "oneOf", json_pack("{s:{s:O}}", "properties", "a", inner), inner)
                            : json_pack("{s:o}", "not", inner);
    return inner;
}

/* Definitions that refer to each other. */
static json_t *references(void)
{
    json_t *all = json_object();
    const size_t count = 1 + below(below(2) == 0 ? 12 : some(150)), kinds = 1 + below(6);

    for (size_t i = 0; i < count; i++) {
        json_t *one[3];

        for (size_t k = 0; k < 3; k++)
            one[k] = below(8) == 0 ? scalar() : json_pack("{s:o}", "$ref", named("#/$defs/d", below(count)));
        switch (below(kinds)) {
        case 0:
            set(all, "d", i, json_pack("{s:{s:o, s:o, s:o}}", "properties", "a", one[0], "b", one[1], "c", one[2]));
            break;
        case 1:
            set(all, "d", i, json_pack("{s:[o, o, o]}", "anyOf", one[0], one[1], one[2]));
            break;
        case 2:
            set(all, "d", i, json_pack("{s:[o, o], s:{s:o}}", "allOf", one[0], one[1], "properties", "x", one[2]));
            break;
        case 3:
            set(all, "d", i, json_pack("{s:[o, o, o], s:o}", "prefixItems", one[0], one[1], one[2], "items", scalar()));
            break;
        case 4:
            set(all, "d", i, json_pack("{s:[o, o, o]}", "oneOf", one[0], one[1], one[2]));
            break;
        default:
            set(all, "d", i, json_pack("{s:o, s:o, s:o}", "if", one[0], "then", one[1], "else", one[2]));
        }
    }
    return json_pack("{s:s, s:o}", "$ref", "#/$defs/d0", "$defs", all);
}

static json_t *values(void)
{
    json_t *list = json_array(), *all;
    const size_t count = some(12);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list,
                                    below(3) == 0 ? constant() : json_sprintf("%x", (unsigned)random_bits(&seed)));
    all = json_pack("{s:O}", "enum", list);
    if (below(4) == 0)
        (void)json_object_set_new(all, "allOf", json_pack("[{s:o}]", "enum", json_deep_copy(list)));
    if (below(4) == 0)
        (void)json_object_set_new(all, "pattern", json_string("^[a-f]*[0-9]|value"));
    if (below(6) == 0)
        (void)json_object_set_new(all, "format", json_string("uri"));
    if (below(6) == 0)
        all = json_pack("{s:[s, s], s:o}", "type", "string", "integer", "not", all);
    json_decref(list);
    return all;
}

static json_t *tuples(void)
{
    json_t *list = json_array(), *all;
    const size_t count = below(3) == 0 ? some(40) : below(220);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, scalar());
    all = json_pack("{s:s, s:o}", "type", "array", "prefixItems", list);
    if (below(3) == 0)
        (void)json_object_set_new(all, "contains", scalar());
    if (below(3) == 0)
        (void)json_object_set_new(all, "minContains", json_integer((int)below(30)));
    if (below(2) == 0)
        (void)json_object_set_new(all, "maxItems", json_integer((int)below(250)));
    return all;
}

static json_t *counted(void)
{
    json_t *all = json_object();
    const size_t count = some(60);

    for (size_t i = 0; i < count; i++) {
        const int least = (int)below((size_t)1 << below(21)), most = least + (int)below((size_t)1 << below(16));

        set(all, "p", i,
            below(2) == 0 ? json_pack("{s:s, s:i, s:i, s:o}", "type", "array", "minItems", least, "maxItems", most,
                                      "items", scalar())
                          : json_pack("{s:s, s:i, s:i}", "type", "string", "minLength", least, "maxLength", most));
    }
    return json_pack("{s:s, s:o}", "type", "object", "properties", all);
}

/* Lists of schemas that hold at once, some with alternatives. */
static json_t *lists(void)
{
    json_t *list = json_array();
    const size_t count = some(80), share = below(5);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(
            list, below(5) < share ? json_pack("{s:[{s:i}, {s:[s, s]}]}", "anyOf", "minimum", (int)below(100), "type",
                                               "integer", "string")
                                   : json_pack("{s:{s:{s:i}}}", "properties", "p", "minimum", (int)below(1000)));
    return json_pack("{s:o}", "allOf", list);
}

/* A regular expression of many kinds of parts. */
static char *expression(size_t parts, size_t depth)
{
    struct strbuf text = { 0 };

    for (size_t i = 0; i < parts; i++)
        switch (below(depth < 60 ? 9 : 6)) {
        case 0:
            strbuf_format(&text, "[^\\x%02x%zu-%zu]", (unsigned)below(64) + 32, below(4), 4 + below(5));
            break;
        case 1:
            strbuf_format(&text, "(?:a|b{%zu}|c)", below(300));
            break;
        case 2:
            strbuf_format(&text, "(){%zu}", below(1000));
            break;
        case 3:
            strbuf_format(&text, "\\w{%zu,%zu}", below(20), 20 + below(900));
            break;
        case 4:
            strbuf_text(&text, ".*a");
            break;
        case 5:
            strbuf_text(&text, depth == 0 ? "(?=.{3}.*b)" : "\xc3\xa9|");
            break;
        default: {
            char *inner = expression(1 + below(2), depth + 1 + below(20));

            strbuf_format(&text, "(?:%s){%zu,%zu}", inner, below(9), 9 + below(600));
            free(inner);
        }
        }
    strbuf_add(&text, "", 1);
    return text.data;
}

static json_t *patterns(void)
{
    char *text = expression(1 + below(below(4) == 0 ? some(12) : 6), 0);
    json_t *all = json_pack("{s:s, s:s}", "type", "string", "pattern", text);

    if (below(2) == 0)
        (void)json_object_set_new(all, "maxLength", json_integer((int)below(3000)));
    if (below(3) == 0)
        all = json_pack("{s:o, s:s}", "not", all, "type", "string");
    if (below(4) == 0)
        (void)json_object_set_new(all, "enum",
                                  json_pack("[s, s]", "abc", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"));
    free(text);
    return all;
}

static json_t *names(void)
{
    json_t *all = object_of(below(3) == 0 ? some(40) : below(60)), *list = json_object(), *by_pattern = json_object();
    const size_t count = below(18);

    for (size_t i = 0; i < count; i++) {
        set(list, "p", below(40), below(2) == 0 ? json_pack("[o]", named("p", below(40))) : json_pack("[]"));
        set(by_pattern, below(2) == 0 ? "^p.*" : "x", i, scalar());
    }
    (void)json_object_set_new(all, "dependentRequired", list);
    if (below(2) == 0)
        (void)json_object_set_new(all, "patternProperties", by_pattern);
    else
        json_decref(by_pattern);
    if (below(3) == 0)
        (void)json_object_set_new(all, "propertyNames", json_pack("{s:s}", "pattern", "^[a-z]+[0-9]{1,6}$"));
    if (below(3) == 0)
        (void)json_object_set_new(all, "additionalProperties", scalar());
    return all;
}

static json_t *unique(void)
{
    json_t *list = json_array();
    const size_t count = below(230);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)i));
    return json_pack("{s:s, s:b, s:i, s:i, s:{s:o}}", "type", "array", "uniqueItems", 1, "minItems", (int)below(9),
                     "maxItems", (int)below(200) + 9, "items", "enum", list);
}

static json_t *texts(void)
{
    const size_t bytes = some(1);
    char *text = malloc(bytes + 1);
    json_t *all;

    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)('a' + (int)below(3));
    text[bytes] = '\0';
    all = below(2) == 0 ? json_pack("{s:s}", "const", text)
                        : json_pack("{s:{s:{s:s}}, s:[s], s:i}", "properties", text, "type", "integer", "required",
                                    text, "minProperties", (int)below(3));
    free(text);
    return all;
}

/* As the arguments of an agent's tools. */
static json_t *tools(void)
{
    json_t *list = json_array();
    const size_t count = 1 + below(64), parameters = 1 + below(60);

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, object_of(parameters));
    return json_pack("{s:o}", "anyOf", list);
}

static json_t *mixture(void);

static json_t *(*const kinds[])(void) = { properties, alternatives, nested, references, values, tuples, counted,
                                          lists,      patterns,     names,  unique,     texts,  tools,  mixture };

/* Kinds within a kind. */
static json_t *mixture(void)
{
    json_t *all = json_object(), *members = json_object();

    for (size_t i = 0; i < 3; i++)
        set(members, "m", i, kinds[below(sizeof kinds / sizeof *kinds - 1)]());
    (void)json_object_set_new(all, "properties", members);
    if (below(2) == 0)
        (void)json_object_set_new(all, "if", scalar());
    return all;
}

static double processor_seconds(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* Limits the data of this process to `more` bytes beyond its present data; 0: to the first limit. */
static void limit_memory(size_t more)
{
#ifdef __SANITIZE_ADDRESS__
    (void)more; /* the sanitizer needs more itself */
#else
    static struct rlimit first;
    struct rlimit limit;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (first.rlim_max == 0)
        assert_int_equal(getrlimit(RLIMIT_DATA, &first), 0);
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*d %*d %*d %*d %ld", &pages), 1);
    (void)fclose(file);
    limit = first;
    if (more > 0)
        limit.rlim_cur = (rlim_t)pages * 4096 + more;
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
#endif
}

/* What a kind came to. */
typedef struct kind_result {
    size_t made, refused;
    uint64_t most_steps;
    double most_seconds;
} kind_result;

/* The reasons for which a valid schema may be refused. */
static bool names_a_limit(const char *why)
{
    static const char *const limits[] = { "more than ", "at most ",         "not supported", "refers to ",
                                          "too large",  "no value matches", "whole number" };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (strstr(why, limits[i]) != NULL)
            return true;
    return false;
}

static void schemas_are_bounded(void **state)
{
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static kind_result results[KINDS];
    const char *given = getenv("INLAY_SCHEMAS");
    const size_t rounds = given != NULL ? strtoul(given, NULL, 10) : random_rounds(98);

    (void)state;
    for (size_t i = 0; i < rounds; i++) {
        kind_result *kind = &results[i % KINDS];
        json_t *schema = kinds[i % KINDS]();
        char *text = json_dumps(schema, JSON_COMPACT), why[GRAMMAR_WHY_BYTES] = "";
        const double before = processor_seconds();
        struct grammar *grammar;
        double seconds;
        bool good;

        assert_non_null(text);
        if (strlen(text) <= LARGEST) {
            limit_memory((size_t)MEGABYTES << 20);
            grammar = grammar_create();
            good = grammar_schema(grammar, schema, why) && grammar_finish(grammar, why);
            seconds = processor_seconds() - before;
            limit_memory(0);
            assert_non_null(grammar);
            if (!good && !names_a_limit(why))
                fail_msg("schema %zu: %s: %.300s", i, why, text);
            assert_true(grammar_spent(grammar) <= GRAMMAR_STEPS);
            *(good ? &kind->made : &kind->refused) += 1;
            if (grammar_spent(grammar) > kind->most_steps)
                kind->most_steps = grammar_spent(grammar);
            if (seconds > kind->most_seconds)
                kind->most_seconds = seconds;
            if (given != NULL && seconds > 0.3)
                (void)printf("%zu kind %zu %zu bytes %.2f s %llu steps %s\n", i, i % KINDS, strlen(text), seconds,
                             (unsigned long long)grammar_spent(grammar), why);
            grammar_destroy(grammar);
        }
        free(text);
        json_decref(schema);
    }
    for (size_t i = 0; i < KINDS && given != NULL; i++)
        (void)printf("kind %zu: %zu grammars, %zu refused, at most %.2f million steps, %.2f s\n", i, results[i].made,
                     results[i].refused, (double)results[i].most_steps * 1e-6, results[i].most_seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(schemas_are_bounded) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
