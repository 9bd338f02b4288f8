#include "plugin/clash.h"
#include "base/among.h"
#include "base/version.h"
#include <stdio.h>
#include <string.h>

bool clash_find(const plugin_module *first, const note_facts *facts, const plugin_module *module, char text[CLASH_TEXT])
{
    const char *name = module != NULL ? module->file.name : facts->name;

    for (uint32_t i = 0; i < first->file.provider_count; i++) {
        const char *provider = first->providers[i].table->name;
        bool is_common = module == NULL && is_among(provider, facts->providers);

        for (uint32_t k = 0; module != NULL && !is_common && k < module->file.provider_count; k++)
            is_common = strcmp(provider, module->providers[k].table->name) == 0;
        if (is_common) {
            (void)snprintf(text, CLASH_TEXT, "provider '%.100s'", provider);
            return true;
        }
    }
    for (uint32_t i = 0; module != NULL && i < first->file.operator_count; i++) {
        const inlay_operator *op = &first->operators[i];

        for (uint32_t k = 0; k < module->file.operator_count; k++) {
            if (!module_same_operator(op, &module->operators[k]))
                continue;
            (void)snprintf(text, CLASH_TEXT, "operator %.100s.%.100s-%u", op->domain, op->op_type, op->since_version);
            return true;
        }
    }
    if (strcmp(first->file.name, name) != 0 || (module != NULL && module->open_plugin != NULL))
        return false;
    (void)snprintf(text, CLASH_TEXT, "plugin '%.100s'", name);
    return true;
}

bool clash_same_folder(const char *a, const char *b)
{
    const char *slash_a = strrchr(a, '/'), *slash_b = strrchr(b, '/');

    return slash_a != NULL && slash_b != NULL && slash_a - a == slash_b - b &&
           strncmp(a, b, (size_t)(slash_a - a)) == 0;
}

const char *clash_precedence(const plugin_file *first, const char *path, const char *version, char text[CLASH_TEXT])
{
    if (!clash_same_folder(first->path, path))
        return strcpy(text, "which is searched first");
    (void)snprintf(text, CLASH_TEXT, "%s in the same folder (%.60s; this file: %.60s)",
                   version[0] == '\0'                             ? "which comes first"
                   : version_compare(first->version, version) > 0 ? "a higher version"
                                                                  : "the first by name",
                   first->version[0] != '\0' ? first->version : "no version",
                   version[0] != '\0' ? version : "no version in its note: define INLAY_NOTE_VERSION");
    return text;
}
