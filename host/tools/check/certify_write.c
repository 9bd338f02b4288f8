/* Collects the records of cases, infers where results differ, and writes the certificate. */
#include "base/json_text.h"
#include "base/among.h"
#include "base/memory.h"
#include "base/output.h"
#include "check/certify.h"
#include "inlay/check.h"
#include "inlay/inlay.h"
#include "partition/certificate/certificate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Results that differ by chance: an explanation is one only if chance is less likely. */
static const double most_chance = 0.01;

/* A case. */
struct record {
    uint32_t *traits; /* [count] indices of struct subject.traits */
    uint32_t count;
    bool is_grouped, agreed;
    double error;
    const char *example;
    const char *exact; /* traits_exact(); empty: none */
    bool of_model;
};

/* The cases of an operator of a provider. */
struct subject {
    struct subject *next;
    const char *provider, *domain, *op_type;
    node_trait *traits; /* [trait_count] all that occurred */
    uint32_t trait_count;
    struct record *records; /* [record_count] */
    uint32_t record_count;
};

/* A group of nodes that a provider offers as a whole. */
struct group_record {
    struct group_record *next;
    const char *provider, *nodes;
    uint32_t cases, differed;
};

struct certify_records {
    struct arena arena;
    struct subject *subjects;    /* in the order of their first case */
    struct group_record *groups; /* likewise */
    struct record *pending;      /* has begun, but not ended; NULL: none */
    struct group_record *pending_group;
    bool merges;        /* group regions ran */
    bool no_merging;    /* regions of merged offers failed */
    const char *failed; /* see certificate_provider.failed */
    bool out_of_memory;
};

certify_records *certify_open(void)
{
    return calloc(1, sizeof(certify_records));
}

void certify_close(certify_records *records)
{
    if (records != NULL)
        arena_deinit(&records->arena);
    free(records);
}

/* NULL: out of memory, for which the certificate is not written. */
static struct subject *find_subject(certify_records *records, const char *provider, const char *domain,
                                    const char *op_type)
{
    struct subject **at = &records->subjects;

    while (*at != NULL && (strcmp((*at)->provider, provider) != 0 || strcmp((*at)->domain, domain) != 0 ||
                           strcmp((*at)->op_type, op_type) != 0))
        at = &(*at)->next;
    if (*at == NULL && (*at = arena_array(&records->arena, 1, sizeof **at)) != NULL) {
        (*at)->provider = arena_string(&records->arena, provider);
        (*at)->domain = arena_string(&records->arena, domain);
        (*at)->op_type = arena_string(&records->arena, op_type);
        if ((*at)->provider == NULL || (*at)->domain == NULL || (*at)->op_type == NULL)
            *at = NULL;
    }
    records->out_of_memory |= *at == NULL;
    return *at;
}

/* NULL: likewise. */
static struct group_record *find_group(certify_records *records, const char *provider, const char *nodes)
{
    struct group_record **at = &records->groups;

    while (*at != NULL && (strcmp((*at)->provider, provider) != 0 || strcmp((*at)->nodes, nodes) != 0))
        at = &(*at)->next;
    if (*at == NULL && (*at = arena_array(&records->arena, 1, sizeof **at)) != NULL) {
        (*at)->provider = arena_string(&records->arena, provider);
        (*at)->nodes = arena_string(&records->arena, nodes);
        if ((*at)->provider == NULL || (*at)->nodes == NULL)
            *at = NULL;
    }
    records->out_of_memory |= *at == NULL;
    return *at;
}

/* The index of a trait among those of the subject. NONE: out of memory. */
static uint32_t find_trait(certify_records *records, struct subject *subject, const char *name, uint32_t kind,
                           double level)
{
    for (uint32_t i = 0; i < subject->trait_count; i++)
        if (subject->traits[i].kind == kind && subject->traits[i].level == level &&
            strcmp(subject->traits[i].name, name) == 0)
            return i;
    if (!ARENA_GROW(&records->arena, subject->traits, subject->trait_count))
        return INLAY_NONE;
    subject->traits[subject->trait_count] = (node_trait){ .kind = kind, .level = level };
    (void)snprintf(subject->traits[subject->trait_count].name, TRAIT_BYTES, "%s", name);
    return subject->trait_count++;
}

static void take_traits(certify_records *records, struct subject *subject, struct record *record, const json_t *list)
{
    json_t *trait;
    size_t i;

    record->traits = arena_array(&records->arena, json_array_size(list) + 1, sizeof *record->traits);
    json_array_foreach(list, i, trait) {
        const uint32_t at = record->traits == NULL
                                ? INLAY_NONE
                                : find_trait(records, subject, json_string_value(json_array_get(trait, 0)),
                                             (uint32_t)json_integer_value(json_array_get(trait, 1)),
                                             json_number_value(json_array_get(trait, 2)));

        if (at == INLAY_NONE) {
            records->out_of_memory = true;
            return;
        }
        record->traits[record->count++] = at;
    }
}

/* A case begins: it counts as one that differs until it ends. */
static void take_begin(certify_records *records, const json_t *object)
{
    struct subject *subject = find_subject(records, json_text_of(object, "begin"), json_text_of(object, "domain"),
                                           json_text_of(object, "operator"));
    const char *group = json_text_of(object, "group");
    struct record *record;

    records->pending = NULL;
    records->pending_group = group[0] != '\0' ? find_group(records, json_text_of(object, "begin"), group) : NULL;
    if (subject == NULL || !ARENA_GROW(&records->arena, subject->records, subject->record_count)) {
        records->out_of_memory = true;
        return;
    }
    record = &subject->records[subject->record_count++];
    *record = (struct record){ .is_grouped = group[0] != '\0',
                               .example = arena_string(&records->arena, json_text_of(object, "example")),
                               .exact = arena_string(&records->arena, json_text_of(object, "exact")),
                               .of_model = json_is_true(json_object_get(object, "of_model")) };
    take_traits(records, subject, record, json_object_get(object, "traits"));
    records->pending = record;
}

static void take_end(certify_records *records, const json_t *object)
{
    if (records->pending != NULL) {
        records->pending->agreed = json_is_true(json_object_get(object, "end"));
        records->pending->error = json_number_value(json_object_get(object, "error"));
    }
    if (records->pending_group != NULL) {
        records->pending_group->cases++;
        records->pending_group->differed += !json_is_true(json_object_get(object, "end"));
    }
    records->pending = NULL;
}

bool certify_take(certify_records *records, const json_t *object)
{
    if (json_object_get(object, "begin") != NULL)
        take_begin(records, object);
    else if (json_object_get(object, "end") != NULL)
        take_end(records, object);
    else
        return false;
    return true;
}

void certify_note_group(certify_records *records, const char *group)
{
    records->merges = records->merges || strcmp(group, "regions") == 0;
}

void certify_note_failure(certify_records *records, const char *group, bool crashed)
{
    /* What these check does not change results, or they record their cases. */
    const bool is_apart = is_among(group, "file open offers infer examples results random models values cost coverage "
                                          "heap declined process leaks rules with budget");

    if (crashed && records->pending != NULL) {
        records->pending = NULL;
        return;
    }
    if (strcmp(group, "regions") == 0 || strcmp(group, "patterns") == 0)
        records->no_merging = true;
    else if ((crashed || !is_apart) && records->failed == NULL)
        records->failed = arena_format(&records->arena, "check %s failed", group);
}

/* A trait that may tell the cases that differ: all levels of a form or a remainder, those from or up to an amount. */
struct condition {
    trait_range range;
    uint64_t *holds; /* [words] a bit for each case */
};

struct inference {
    certify_records *records;
    const struct subject *subject;
    const struct record **cases; /* [count] */
    uint32_t count;
    uint32_t words; /* of a set of cases, 64 in each */
    uint64_t *agreed;
    uint64_t *open;               /* cases that differ and fit no difference yet */
    struct condition *conditions; /* [condition_count] */
    uint32_t condition_count;
    json_t *differences;
};

static bool add_condition(struct inference *inference, const node_trait *trait, double low, double high)
{
    struct arena *arena = &inference->records->arena;
    struct condition *condition;

    if (!ARENA_GROW(arena, inference->conditions, inference->condition_count))
        return false;
    condition = &inference->conditions[inference->condition_count];
    *condition = (struct condition){ { trait->kind, trait->name, low, high },
                                     arena_array(arena, inference->words, sizeof *condition->holds) };
    if (condition->holds == NULL)
        return false;
    inference->condition_count++;
    for (uint32_t c = 0; c < inference->count; c++)
        for (uint32_t k = 0; k < inference->cases[c]->count; k++)
            if (traits_in_range(&inference->subject->traits[inference->cases[c]->traits[k]], &condition->range))
                condition->holds[c / 64] |= UINT64_C(1) << c % 64;
    return true;
}

/* Lists the conditions that a case which differs fulfils. */
static bool list_conditions(struct inference *inference)
{
    const struct subject *subject = inference->subject;
    bool *occurs = arena_array(&inference->records->arena, subject->trait_count + (size_t)1, sizeof *occurs);
    bool ok = occurs != NULL;

    for (uint32_t c = 0; ok && c < inference->count; c++)
        for (uint32_t k = 0; k < inference->cases[c]->count && !inference->cases[c]->agreed; k++)
            occurs[inference->cases[c]->traits[k]] = true;
    for (uint32_t t = 0; ok && t < subject->trait_count; t++) {
        const node_trait *trait = &subject->traits[t];

        if (!occurs[t])
            continue;
        if (trait->kind == TRAIT_AMOUNT)
            ok = add_condition(inference, trait, trait->level, INFINITY) &&
                 (strcmp(trait->name, traits_not_finite) == 0 || add_condition(inference, trait, 0, trait->level));
        else
            ok = add_condition(inference, trait, trait->level, trait->level);
    }
    return ok;
}

/* How two conditions together, or one alone (second NULL), divide the cases. */
struct division {
    uint32_t agreed, differed;         /* that fulfil them; differed: without those that are explained */
    uint32_t all_agreed, all_differed; /* of all cases, likewise */
};

static struct division divide(const struct inference *inference, const struct condition *first,
                              const struct condition *second)
{
    struct division division = { 0 };

    for (uint32_t w = 0; w < inference->words; w++) {
        const uint64_t holds = first->holds[w] & (second == NULL ? UINT64_MAX : second->holds[w]);

        division.agreed += (uint32_t)__builtin_popcountll(holds & inference->agreed[w]);
        division.differed += (uint32_t)__builtin_popcountll(holds & inference->open[w]);
        division.all_agreed += (uint32_t)__builtin_popcountll(inference->agreed[w]);
        division.all_differed += (uint32_t)__builtin_popcountll(inference->open[w]);
    }
    return division;
}

/* The share of the cases with the traits that differ; 0 if there are none. */
static double purity_of(const struct division *division)
{
    const uint32_t cases = division->agreed + division->differed;

    return cases > 0 ? (double)division->differed / cases : 0;
}

/* A bound for the odds that cases with the traits differ as often as they do, or more often, by chance, at the rate at
 * which all cases do (Chernoff's bound of a binomial distribution). 1: they differ no more often. */
static double chance_of_purity(const struct division *division)
{
    const double all = (double)division->all_agreed + division->all_differed;
    const double rate = division->all_differed / all, purity = purity_of(division);
    const double cases = (double)division->agreed + division->differed;
    double divergence;

    if (purity <= rate || rate == 0)
        return 1;
    divergence = purity * log(purity / rate);
    if (purity < 1)
        divergence += (1 - purity) * log((1 - purity) / (1 - rate));
    return exp(-cases * divergence);
}

/* The odds that all cases which differ have the traits by chance, at the rate at which all cases have them. */
static double chance_of_cover(const struct division *division)
{
    const double all = (double)division->all_agreed + division->all_differed;

    return division->differed < division->all_differed
               ? 1
               : pow((division->agreed + division->differed) / all, division->differed);
}

static json_t *pack_range(const trait_range *range)
{
    static const char *const kinds[TRAIT_KINDS] = { "form", "remainder", "amount" };

    return json_pack("{s:s, s:s, s:f, s:o}", "kind", kinds[range->kind], "trait", range->name, "low", range->low,
                     "high", isfinite(range->high) ? json_real(range->high) : json_null());
}

/* Adds the difference, and marks the cases that it explains. */
static void add_difference(struct inference *inference, const struct condition *first, const struct condition *second)
{
    json_t *when = json_array();
    const char *example = "";
    uint32_t cases = 0;

    (void)json_array_append_new(when, pack_range(&first->range));
    if (second != NULL)
        (void)json_array_append_new(when, pack_range(&second->range));
    for (uint32_t w = 0; w < inference->words; w++) {
        const uint64_t holds = first->holds[w] & (second == NULL ? UINT64_MAX : second->holds[w]);
        const uint64_t found = holds & inference->open[w];

        if (found != 0)
            example = inference->cases[w * 64 + (uint32_t)__builtin_ctzll(found)]->example;
        cases += (uint32_t)__builtin_popcountll(found);
        inference->open[w] &= ~holds;
    }
    (void)json_array_append_new(inference->differences, json_pack("{s:o, s:I, s:s}", "when", when, "cases",
                                                                  (json_int_t)cases, "example", example));
}

/* One condition, or two, and how they divide the cases; first NULL: none. */
struct choice {
    const struct condition *first, *second;
    struct division division;
};

/* Is one division a better explanation than another? A case that agrees and is excluded weighs as two that differ. */
static bool is_better(const struct division *one, const struct division *other)
{
    return (int64_t)one->differed - 2 * (int64_t)one->agreed > (int64_t)other->differed - 2 * (int64_t)other->agreed;
}

/* Compares a division, at `tries` possible ones, with the best so far. Most of the cases with the traits must differ,
 * or, if `covers`, all cases that differ must have them. */
static void consider(const struct inference *inference, const struct condition *first, const struct condition *second,
                     double tries, bool covers, struct choice *best)
{
    const struct division division = divide(inference, first, second);
    const double chance = covers                       ? chance_of_cover(&division)
                          : purity_of(&division) < 0.5 ? 1
                                                       : chance_of_purity(&division);

    if (division.differed > 0 && chance * tries < most_chance &&
        (best->first == NULL || is_better(&division, &best->division)))
        *best = (struct choice){ first, second, division };
}

/* Finds the trait, or the two traits, that explain most of the cases that differ and are not explained yet. */
static bool find_difference(struct inference *inference)
{
    const uint32_t count = inference->condition_count;
    struct choice best = { NULL, NULL, { 0 } };

    for (int covers = 0; best.first == NULL && covers < 2; covers++) {
        for (uint32_t i = 0; i < count; i++)
            consider(inference, &inference->conditions[i], NULL, count, covers != 0, &best);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = i + 1; k < count; k++)
                consider(inference, &inference->conditions[i], &inference->conditions[k], (double)count * count,
                         covers != 0, &best);
    }
    if (best.first != NULL)
        add_difference(inference, best.first, best.second);
    return best.first != NULL;
}

/* Do some cases that agreed fulfil all of the conditions? */
static bool has_agreed(const struct inference *inference, const struct condition *const *list, uint32_t count)
{
    for (uint32_t w = 0; w < inference->words; w++) {
        uint64_t holds = inference->agreed[w];

        for (uint32_t i = 0; i < count; i++)
            holds &= list[i]->holds[w];
        if (holds != 0)
            return true;
    }
    return false;
}

enum { MOST_TOGETHER = 3, MOST_CANDIDATES = 400, MOST_SINGLE_CASES = 64 };

/* Adds all combinations of `count` conditions of a case that no case which agreed fulfils. Returns their number; above
 * MOST_CANDIDATES none is added. */
static uint32_t exclude_combinations(struct inference *inference, const struct condition *const *of_case,
                                     uint32_t of_case_count, uint32_t count, bool adds, const char *example)
{
    uint32_t at[MOST_TOGETHER] = { 0, 1, 2 }, found = 0;

    while (of_case_count >= count) {
        const struct condition *list[MOST_TOGETHER];
        uint32_t i = count;

        for (uint32_t k = 0; k < count; k++)
            list[k] = of_case[at[k]];
        if (!has_agreed(inference, list, count)) {
            found++;
            if (adds) {
                json_t *when = json_array();

                for (uint32_t k = 0; k < count; k++)
                    (void)json_array_append_new(when, pack_range(&list[k]->range));
                (void)json_array_append_new(inference->differences, json_pack("{s:o, s:I, s:s}", "when", when, "cases",
                                                                              (json_int_t)1, "example", example));
            }
        }
        while (i > 0 && at[i - 1] == of_case_count - count + i - 1)
            i--;
        if (i == 0)
            break;
        at[i - 1]++;
        for (uint32_t k = i; k < count; k++)
            at[k] = at[k - 1] + 1;
    }
    return found;
}

/* A case that differs, and that is too rare for find_difference(): whatever it has and no case that agreed has is
 * excluded, alone, or else in pairs, or else in triples. False: it has nothing of its own. */
static bool exclude_case(struct inference *inference, uint32_t index)
{
    const struct condition **list = arena_array(&inference->records->arena, inference->condition_count + (size_t)1,
                                                sizeof(const struct condition *));
    const char *example = inference->cases[index]->example;
    uint32_t count = 0, found = 0;

    for (uint32_t i = 0; list != NULL && i < inference->condition_count; i++)
        if ((inference->conditions[i].holds[index / 64] >> index % 64 & 1) != 0)
            list[count++] = &inference->conditions[i];
    for (uint32_t together = 1; together <= MOST_TOGETHER && found == 0; together++) {
        found = exclude_combinations(inference, list, count, together, false, example);
        if (found > 0 && found <= MOST_CANDIDATES)
            (void)exclude_combinations(inference, list, count, together, true, example);
    }
    return found > 0 && found <= MOST_CANDIDATES;
}

/* Excludes the cases that are left one by one. Returns how many stay unexplained. */
static uint32_t exclude_cases(struct inference *inference)
{
    uint32_t left = 0, excluded = 0;

    for (uint32_t w = 0; w < inference->words; w++)
        for (uint64_t open = inference->open[w]; open != 0; open &= open - 1)
            if (excluded == MOST_SINGLE_CASES || !exclude_case(inference, w * 64 + (uint32_t)__builtin_ctzll(open)))
                left++;
            else
                excluded++;
    return left;
}

/* Explains the cases that differ. *out_outside: NULL, or why no node is inside. False: out of memory. */
static bool infer(struct inference *inference, const char **out_outside)
{
    struct arena *arena = &inference->records->arena;
    uint32_t agreed = 0, left = 0;

    *out_outside = NULL;
    inference->words = inference->count / 64 + 1;
    inference->agreed = arena_array(arena, inference->words, sizeof *inference->agreed);
    inference->open = arena_array(arena, inference->words, sizeof *inference->open);
    if (inference->agreed == NULL || inference->open == NULL)
        return false;
    for (uint32_t c = 0; c < inference->count; c++) {
        agreed += inference->cases[c]->agreed;
        (inference->cases[c]->agreed ? inference->agreed : inference->open)[c / 64] |= UINT64_C(1) << c % 64;
    }
    if (!list_conditions(inference))
        return false;
    while (agreed > 0 && find_difference(inference))
        continue;
    left = agreed > 0 ? exclude_cases(inference) : inference->count;
    if (left > 0) {
        *out_outside = arena_format(&inference->records->arena, "results differ in %u of %u cases of %s%s",
                                    inference->count - agreed, inference->count, inference->subject->op_type,
                                    agreed > 0 ? ", and no trait of the node says in which" : "");
        return *out_outside != NULL;
    }
    return true;
}

static int compare_forms(const void *left, const void *right)
{
    const node_trait *const *one = left, *const *other = right;

    return strcmp((*one)->name, (*other)->name);
}

/* Lists the forms of the cases that agreed, sorted, and which of them occurred together. */
static bool pack_forms(const struct inference *inference, json_t *forms, json_t *together)
{
    const struct subject *subject = inference->subject;
    struct arena *arena = &inference->records->arena;
    const node_trait **list = arena_array(arena, subject->trait_count + (size_t)1, sizeof(const node_trait *));
    uint32_t *place = arena_array(arena, subject->trait_count + (size_t)1, sizeof *place), count = 0;
    bool *agreed = arena_array(arena, subject->trait_count + (size_t)1, sizeof *agreed);
    uint8_t *pairs;

    if (list == NULL || place == NULL || agreed == NULL)
        return false;
    for (uint32_t c = 0; c < inference->count; c++)
        for (uint32_t k = 0; k < inference->cases[c]->count && inference->cases[c]->agreed; k++)
            agreed[inference->cases[c]->traits[k]] = true;
    for (uint32_t t = 0; t < subject->trait_count && count < CERTIFICATE_FORMS; t++)
        if (agreed[t] && subject->traits[t].kind == TRAIT_FORM)
            list[count++] = &subject->traits[t];
    qsort(list, count, sizeof(const node_trait *), compare_forms);
    memset(place, 0xff, (subject->trait_count + (size_t)1) * sizeof *place);
    for (uint32_t i = 0; i < count; i++) {
        place[list[i] - subject->traits] = i;
        (void)json_array_append_new(forms, json_string(list[i]->name));
    }
    pairs = arena_array(arena, (size_t)count * count + 1, 1);
    for (uint32_t c = 0; pairs != NULL && c < inference->count; c++) {
        const struct record *record = inference->cases[c];

        for (uint32_t i = 0; i < record->count && record->agreed; i++)
            for (uint32_t k = 0; k < record->count; k++) {
                const uint32_t one = place[record->traits[i]], other = place[record->traits[k]];

                if (one != INLAY_NONE && other != INLAY_NONE && one < other)
                    pairs[(size_t)one * count + other] = 1;
            }
    }
    for (uint32_t i = 0; pairs != NULL && i < count; i++) {
        json_t *others = json_array();

        for (uint32_t k = i + 1; k < count; k++)
            if (pairs[(size_t)i * count + k] != 0)
                (void)json_array_append_new(others, json_integer(k));
        (void)json_array_append_new(together, others);
    }
    return pairs != NULL;
}

/* Lists the remainders and the largest amounts of the cases that agreed. */
static void pack_levels(const struct inference *inference, json_t *remainders, json_t *amounts)
{
    const struct subject *subject = inference->subject;

    for (uint32_t c = 0; c < inference->count; c++)
        for (uint32_t k = 0; k < inference->cases[c]->count && inference->cases[c]->agreed; k++) {
            const node_trait *trait = &subject->traits[inference->cases[c]->traits[k]];
            json_t *levels = json_object_get(remainders, trait->name), *level;
            bool found = false;
            size_t i;

            if (trait->kind == TRAIT_AMOUNT && json_number_value(json_object_get(amounts, trait->name)) <= trait->level)
                (void)json_object_set_new(amounts, trait->name, json_real(trait->level));
            if (trait->kind != TRAIT_REMAINDER)
                continue;
            if (levels == NULL) {
                levels = json_array();
                (void)json_object_set_new(remainders, trait->name, levels);
            }
            json_array_foreach(levels, i, level)
                found = found || json_number_value(level) == trait->level;
            if (!found)
                (void)json_array_append_new(levels, json_real(trait->level));
        }
}

static int compare_exact(const void *left, const void *right)
{
    const struct record *const *one = left, *const *other = right;

    return strcmp((*one)->exact, (*other)->exact);
}

/* Lists the nodes of models all of whose runs agreed. Sorts inference->cases. */
static void pack_nodes(const struct inference *inference, json_t *nodes)
{
    const struct record **cases = inference->cases;
    uint32_t end;

    qsort(cases, inference->count, sizeof(const struct record *), compare_exact);
    for (uint32_t begin = 0; begin < inference->count; begin = end) {
        bool agreed = cases[begin]->exact[0] != '\0', of_model = false;

        for (end = begin; end < inference->count && compare_exact(&cases[begin], &cases[end]) == 0; end++) {
            agreed = agreed && cases[end]->agreed;
            of_model = of_model || cases[end]->of_model;
        }
        if (agreed && of_model)
            (void)json_array_append_new(nodes, json_string(cases[begin]->exact));
    }
}

/* An operator of the certificate. NULL: out of memory. *io_counts: cases that agreed, cases that differed, operators,
 * operators without a node inside. */
static json_t *pack_operator(certify_records *records, const struct subject *subject, bool grouped,
                             uint32_t io_counts[4])
{
    struct arena *arena = &records->arena;
    struct inference inference = { .records = records,
                                   .subject = subject,
                                   .cases = arena_array(arena, subject->record_count + (size_t)1,
                                                        sizeof(const struct record *)),
                                   .differences = json_array() };
    json_t *forms = json_array(), *together = json_array(), *remainders = json_object(), *amounts = json_object(),
           *nodes = json_array();
    const char *outside;
    uint32_t agreed = 0;
    double error = 0;

    for (uint32_t c = 0; inference.cases != NULL && c < subject->record_count; c++)
        if (grouped || !subject->records[c].is_grouped)
            inference.cases[inference.count++] = &subject->records[c];
    for (uint32_t c = 0; c < inference.count; c++) {
        agreed += inference.cases[c]->agreed;
        error = inference.cases[c]->agreed ? fmax(error, inference.cases[c]->error) : error;
    }
    if (inference.cases == NULL || !infer(&inference, &outside) || !pack_forms(&inference, forms, together)) {
        records->out_of_memory = true;
        outside = NULL;
    }
    pack_levels(&inference, remainders, amounts);
    if (!grouped && !records->out_of_memory)
        pack_nodes(&inference, nodes);
    io_counts[0] += agreed;
    io_counts[1] += inference.count - agreed;
    io_counts[2]++;
    io_counts[3] += outside != NULL;
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:f, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "domain", subject->domain,
                     "operator", subject->op_type, "grouped", (int)grouped, "cases", (json_int_t)inference.count,
                     "differed", (json_int_t)(inference.count - agreed), "largest_error", error, "outside", outside,
                     "forms", forms, "together", together, "remainders", remainders, "amounts", amounts, "differences",
                     inference.differences, "nodes", nodes);
}

/* The options of the command line for a provider, with the sum of each file that one names. */
static inlay_status pack_options(const check_args *args, const char *provider, json_t *list, inlay_diag *diag)
{
    for (uint32_t i = 0; i < args->option_count; i++) {
        const char *text = check_option_of(args->options[i], provider), *value;
        char sum[65];
        struct stat file;
        bool is_file;

        if (text == NULL)
            continue;
        value = text + strcspn(text, "=") + 1;
        is_file = strchr(value, '/') != NULL && stat(value, &file) == 0 && S_ISREG(file.st_mode);
        if (is_file) {
            const inlay_status status = certificate_hash_file(value, sum, diag);

            if (status != INLAY_OK)
                return status;
        }
        (void)json_array_append_new(list, json_pack("{s:s%, s:s, s:s?}", "name", text, (size_t)(value - text - 1),
                                                    "value", value, "sha256", is_file ? sum : NULL));
    }
    return INLAY_OK;
}

static bool has_grouped(const struct subject *subject)
{
    for (uint32_t c = 0; c < subject->record_count; c++)
        if (subject->records[c].is_grouped)
            return true;
    return false;
}

/* Adds what the checks found about a provider to the list. */
static inlay_status add_provider(certify_records *records, const check_args *args, const char *name, json_t *list,
                                 uint32_t io_counts[4], inlay_diag *diag)
{
    json_t *operators = json_array(), *groups = json_array(), *options = json_array();
    inlay_status status;

    for (const struct group_record *group = records->groups; group != NULL; group = group->next)
        if (strcmp(group->provider, name) == 0)
            (void)json_array_append_new(groups,
                                        json_pack("{s:s, s:I, s:I}", "nodes", group->nodes, "cases",
                                                  (json_int_t)group->cases, "differed", (json_int_t)group->differed));
    for (const struct subject *subject = records->subjects; subject != NULL; subject = subject->next) {
        if (strcmp(subject->provider, name) != 0)
            continue;
        (void)json_array_append_new(operators, pack_operator(records, subject, false, io_counts));
        if (has_grouped(subject))
            (void)json_array_append_new(operators, pack_operator(records, subject, true, (uint32_t[4]){ 0 }));
    }
    status = pack_options(args, name, options, diag);
    (void)json_array_append_new(list, json_pack("{s:s, s:o, s:b, s:s?, s:o, s:o}", "provider", name, "options", options,
                                                "merges", (int)(records->merges && !records->no_merging), "failed",
                                                records->failed, "groups", groups, "operators", operators));
    return status;
}

static inlay_status write_file(const char *path, const json_t *root, inlay_diag *diag)
{
    output_file file;
    inlay_status status = output_open_stream(&file, path, diag);

    if (status != INLAY_OK)
        return status;
    if (json_dumpf(root, file.to, JSON_COMPACT) != 0 || fputc('\n', file.to) == EOF)
        status = output_failed(&file, diag);
    if (status == INLAY_OK)
        return output_commit(&file, NULL, diag);
    output_drop(&file);
    return status;
}

inlay_status certify_write(certify_records *records, const check_args *args, char *out_text, size_t bytes,
                           inlay_diag *diag)
{
    json_t *providers = json_array(), *root = NULL;
    uint32_t counts[4] = { 0 };
    inlay_status status;
    char sum[65];

    records->pending = NULL;
    INLAY_TRY(certificate_hash_file(args->file, sum, diag));
    for (const struct subject *subject = records->subjects; subject != NULL; subject = subject->next) {
        const struct subject *first = records->subjects;

        while (strcmp(first->provider, subject->provider) != 0)
            first = first->next;
        if (first == subject)
            INLAY_TRY(add_provider(records, args, subject->provider, providers, counts, diag));
    }
    root = json_pack("{s:i, s:s, s:s, s:s, s:b, s:I, s:O}", "inlay_certificate", CERTIFICATE_FORMAT, "version",
                     inlay_version(), "plugin", args->file, "sha256", sum, "quick", (int)args->quick, "seed",
                     (json_int_t)args->seed, "providers", providers);
    if (root == NULL || records->out_of_memory)
        status = no_memory(diag, "for the certificate %s", args->certificate);
    else
        status = write_file(args->certificate, root, diag);
    (void)snprintf(out_text, bytes, "%u operators, %u cases agreed, %u differed; %u operators are outside%s%s",
                   counts[2], counts[0], counts[1], counts[3],
                   records->failed != NULL ? "; everything is outside: " : "",
                   records->failed != NULL ? records->failed : "");
done:
    json_decref(root);
    json_decref(providers);
    return status;
}
