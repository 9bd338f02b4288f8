#include "cli/doctor_plugins.h"
#include "tables/words.h"
#include "cli/plugins.h"

static void add_findings(struct doctor *doctor, const plugin_file *file)
{
    const char *name = file->name != NULL ? file->name : file->path;
    char why[512];
    uint32_t models;

    if (!file->loaded && file->fix != NULL) {
        (void)doctor_add(doctor, DOCTOR_PLUGIN_QUARANTINED, NULL, NULL, INLAY_NONE, "plugin %.100s is not used: %s; %s",
                         name, file->reason, file->fix);
        return;
    }
    models = plugin_file_crashes(file, why, sizeof why);
    if (models > 0)
        (void)doctor_add(doctor, DOCTOR_PLUGIN_CRASHED, NULL, NULL, INLAY_NONE,
                         "plugin %.100s is not used for %u other %s for a day, or until 'inlay providers --retry "
                         "%.100s': %s",
                         name, models, plural(models, "model", "models"), name, why);
}

inlay_status doctor_plugins_find(struct doctor *doctor, const cli_common *common, inlay_diag *diag)
{
    plugin_set *set = NULL;
    const inlay_status status = cli_plugins(common, doctor->model->source.identity, &set, diag);

    for (uint32_t i = 0; status == INLAY_OK && i < plugin_set_file_count(set); i++)
        add_findings(doctor, plugin_set_file(set, i));
    plugin_set_destroy(set);
    return status;
}
