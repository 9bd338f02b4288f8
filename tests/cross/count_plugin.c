/* Plugin of qemu-user that counts the instructions that a program executes, for count.py. At exit it writes
 * 'instructions N' to the log of qemu. Debian 12 has no header of QEMU's plug-ins, so the few declarations are here.
 * PLUGIN_VERSION is the version of the interface that this qemu supports. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))
struct qemu_info;
struct qemu_plugin_tb;
typedef uint64_t plugin_id;
enum { WITHOUT_REGISTERS = 0 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id id, struct qemu_plugin_tb *tb));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, void (*cb)(unsigned vcpu, void *user),
                                                 int flags, void *user);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id id, void *user), void *user);
extern void qemu_plugin_outs(const char *text);

EXPORT int qemu_plugin_version = PLUGIN_VERSION;
EXPORT int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv);

static uint64_t executed; /* the counted programs have one thread */

static void count(unsigned vcpu, void *user)
{
    (void)vcpu;
    executed += (uint64_t)(uintptr_t)user;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, count, WITHOUT_REGISTERS, (void *)(uintptr_t)qemu_plugin_tb_n_insns(tb));
}

static void report(plugin_id id, void *user)
{
    char text[64];

    (void)id;
    (void)user;
    (void)snprintf(text, sizeof text, "instructions %" PRIu64 "\n", executed);
    qemu_plugin_outs(text);
}

int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, report, NULL);
    return 0;
}
