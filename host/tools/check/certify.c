/* Records of cases in the processes that run them. */
#include "check/certify.h"
#include "partition/certificate/certificate.h"
#include <math.h>
#include <string.h>

/* The elements of the inputs are in the case, not in the graph. */
static double magnitude_of(void *user, uint32_t input)
{
    const op_case *entry = user;
    const case_tensor *tensor = &entry->in[input];

    if (input >= entry->in_count || tensor->data == NULL)
        return 0;
    return traits_magnitude(tensor->dtype, tensor->data, tensor->count);
}

static json_t *pack_traits(const node_traits *traits)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < traits->count; i++)
        (void)json_array_append_new(
            list, json_pack("[s, i, f]", traits->list[i].name, (int)traits->list[i].kind, traits->list[i].level));
    return list;
}

static void send(struct check *check, json_t *object)
{
    if (object != NULL && json_dumpf(object, check->report, JSON_COMPACT) == 0) {
        (void)fputc('\n', check->report);
        (void)fflush(check->report);
    }
    json_decref(object);
}

static void begin(struct check *check, const loaded_provider *provider, const struct graph *graph, uint32_t node,
                  const op_case *entry, bool not_finite, const char *group)
{
    static node_traits traits; /* large; the groups run on one thread */
    char text[256], exact[TRAITS_EXACT_BYTES];
    const bool is_exact = traits_exact(graph, node, exact);

    traits_list(graph, node, magnitude_of, (void *)(uintptr_t)entry, &traits);
    if (not_finite)
        traits_add(&traits, TRAIT_AMOUNT, 1, false, traits_not_finite);
    send(check,
         json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:s, s:b}", "begin", provider->name, "domain", entry->domain,
                   "operator", entry->op_type, "group", group, "example", case_text(entry, text, sizeof text), "cut",
                   (int)traits.is_cut, "traits", pack_traits(&traits), "exact", is_exact ? exact : "", "of_model",
                   strcmp(check->args->child.group, "models") == 0));
}

void certify_begin(struct check *check, const loaded_provider *provider, const case_instance *built,
                   const op_case *entry, bool not_finite)
{
    if (check->args->child.certify)
        begin(check, provider, built->model->main, built->node, entry, not_finite, "");
}

void certify_end(struct check *check, bool agreed, double error)
{
    if (check->args->child.certify)
        send(check, json_pack("{s:b, s:f}", "end", (int)agreed, "error", isfinite(error) ? error : 0.0));
}

void certify_group(struct check *check, const loaded_provider *provider, const struct certify_group *group,
                   uint32_t node, const op_case *entry, bool agreed)
{
    const struct graph *graph = group->built->model->main;
    char text[256];

    if (!check->args->child.certify)
        return;
    begin(check, provider, graph, node, entry, false,
          certificate_group_text(graph, group->nodes, group->node_count, text, sizeof text));
    certify_end(check, agreed, 0);
}
