/* The file itself, before any of its code runs. */
#include "check/check.h"
#include "plugin/note.h"
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct elf_file {
    struct check *c;
    Elf *elf;
    GElf_Ehdr header;
} elf_file;

/* The first section of a type and its header; NULL: there is none. */
static Elf_Data *section_data(const elf_file *f, uint32_t type, GElf_Shdr *out_header)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(f->elf, section)) != NULL)
        if (gelf_getshdr(section, out_header) != NULL && out_header->sh_type == type)
            return elf_getdata(section, NULL);
    return NULL;
}

static size_t entries(const GElf_Shdr *header)
{
    return header->sh_entsize > 0 ? (size_t)(header->sh_size / header->sh_entsize) : 0;
}

/* Appends to a list in words: "a, b". */
static void list_add(char *list, size_t bytes, const char *name)
{
    size_t used = strlen(list);

    if (used + 4 < bytes)
        (void)snprintf(list + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

static void check_header(const elf_file *f)
{
#if defined(__x86_64__)
    const uint32_t machine = EM_X86_64;
#elif defined(__aarch64__)
    const uint32_t machine = EM_AARCH64;
#else
    const uint32_t machine = f->header.e_machine;
#endif
    if (f->header.e_type != ET_DYN)
        check_fail(f->c, "file", "type", "a shared object (ET_DYN)", "link with -shared", "ELF type %u",
                   f->header.e_type);
    else if (f->header.e_machine != machine || f->header.e_ident[EI_CLASS] != ELFCLASS64)
        check_fail(f->c, "file", "machine", "code for this machine", "compile for the machine that will load it",
                   "ELF machine %u, class %u", f->header.e_machine, f->header.e_ident[EI_CLASS]);
    else
        check_pass(f->c, "file", "type", "a shared object for this machine");
}

/* ------------------------------------------------------------------ symbols */

static void check_symbols(const elf_file *f)
{
    GElf_Shdr header;
    Elf_Data *data = section_data(f, SHT_DYNSYM, &header);
    char exported[400] = "", wanted[400] = "";
    uint32_t others = 0;
    bool opens = false;

    for (size_t i = 1; data != NULL && i < entries(&header); i++) {
        GElf_Sym s;
        const char *name;

        if (gelf_getsym(data, (int)i, &s) == NULL || GELF_ST_BIND(s.st_info) == STB_LOCAL ||
            (name = elf_strptr(f->elf, header.sh_link, s.st_name)) == NULL)
            continue;
        if (s.st_shndx == SHN_UNDEF) {
            if (strncmp(name, "inlay_", 6) == 0)
                list_add(wanted, sizeof wanted, name);
        } else if (strcmp(name, INLAY_PLUGIN_OPEN_SYMBOL) == 0) {
            opens = true;
        } else if (s.st_shndx != SHN_ABS) { /* SHN_ABS: names of versions */
            others++;
            list_add(exported, sizeof exported, name);
        }
    }
    if (!opens)
        check_fail(f->c, "file", "exports", "the symbol " INLAY_PLUGIN_OPEN_SYMBOL,
                   "define it with KIT_PLUGIN(...) in one file, or declare it with INLAY_EXPORT", "it is not exported");
    if (others > 0)
        check_fail(f->c, "file", "exports", "nothing but " INLAY_PLUGIN_OPEN_SYMBOL,
                   "link with the SDK's plugin.map (-Wl,--version-script=) and compile with -fvisibility=hidden: other "
                   "names clash between plugins",
                   "%u more: %s", others, exported);
    else if (opens)
        check_pass(f->c, "file", "exports", INLAY_PLUGIN_OPEN_SYMBOL " and nothing else");
    if (wanted[0] != '\0')
        check_fail(f->c, "file", "undefined", "no symbol of the host: plugins link to nothing of inlay",
                   "call the host through the table that inlay_plugin_open receives, and link the kit statically",
                   "it needs %s", wanted);
}

/* ------------------------------------------------------------------ the dynamic section */

static void check_path(const elf_file *f, const char *kind, const char *path)
{
    char list[512], *rest = list, *one;

    (void)snprintf(list, sizeof list, "%s", path);
    while ((one = strsep(&rest, ":")) != NULL) {
        if (strncmp(one, "$ORIGIN", 7) == 0 || strncmp(one, "${ORIGIN}", 9) == 0 || strncmp(one, "/usr/", 5) == 0 ||
            strncmp(one, "/opt/", 5) == 0 || strncmp(one, "/lib", 4) == 0)
            continue;
        if (one[0] != '/')
            check_fail(f->c, "file", kind, "folders from the root or from $ORIGIN",
                       "remove it (-DCMAKE_SKIP_RPATH=ON): a relative folder loads libraries from wherever the user is",
                       "'%s'", one);
        else
            check_warn(f->c, "file", kind, "folders that exist where the plugin will be used",
                       "install with cmake --install, or set CMAKE_INSTALL_RPATH to $ORIGIN", "'%s'", one);
    }
}

static void check_dynamic(const elf_file *f)
{
    GElf_Shdr header;
    Elf_Data *data = section_data(f, SHT_DYNAMIC, &header);
    char needed[500] = "";
    bool text_relocations = false;

    if (data == NULL) {
        check_fail(f->c, "file", "dynamic", "a dynamic section", "link with -shared", "there is none");
        return;
    }
    for (size_t i = 0; i < entries(&header); i++) {
        GElf_Dyn d;
        const char *text;

        if (gelf_getdyn(data, (int)i, &d) == NULL || d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_TEXTREL || (d.d_tag == DT_FLAGS && (d.d_un.d_val & DF_TEXTREL) != 0))
            text_relocations = true;
        text = d.d_tag == DT_NEEDED || d.d_tag == DT_RPATH || d.d_tag == DT_RUNPATH
                   ? elf_strptr(f->elf, header.sh_link, (size_t)d.d_un.d_val)
                   : NULL;
        if (text == NULL)
            continue;
        if (d.d_tag == DT_NEEDED) {
            list_add(needed, sizeof needed, text);
            if (strncmp(text, "libinlay", 8) == 0)
                check_fail(f->c, "file", "needs", "that it links to nothing of inlay",
                           "link to inlay::kit (inlay-kit.pc), not to inlay::inlay", "it needs %s", text);
        } else {
            check_path(f, d.d_tag == DT_RPATH ? "rpath" : "runpath", text);
        }
    }
    check_pass(f->c, "file", "needs", "%s", needed[0] != '\0' ? needed : "no library");
    if (text_relocations)
        check_fail(f->c, "file", "relocations", "code that is shared and never written to", "compile with -fPIC",
                   "text relocations (DT_TEXTREL)");
    else
        check_pass(f->c, "file", "relocations", "none in code");
}

/* ------------------------------------------------------------------ segments */

static void check_segments(const elf_file *f)
{
    bool stack = false, executable = false;
    size_t count = 0;

    if (elf_getphdrnum(f->elf, &count) != 0)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr p;

        if (gelf_getphdr(f->elf, (int)i, &p) == NULL)
            continue;
        if (p.p_type == PT_GNU_STACK) {
            stack = true;
            executable = (p.p_flags & PF_X) != 0;
        }
    }
    if (!stack || executable)
        check_fail(f->c, "file", "stack", "a stack that is not executable",
                   "link with -Wl,-z,noexecstack; assembler files need .section .note.GNU-stack", "%s",
                   stack ? "PT_GNU_STACK asks for an executable one" : "no PT_GNU_STACK, which asks for one");
    else
        check_pass(f->c, "file", "stack", "not executable");
}

/* What hosts read of the file before they load it. */
static void check_note(struct check *c, int fd, uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    note_facts facts;

    if (note_read(fd, bytes, &facts, &diag) != INLAY_OK) {
        check_fail(c, "file", "note", "a file that hosts can read before they load it", "build it anew", "%s",
                   diag.text);
        return;
    }
    if (!facts.present)
        check_warn(c, "file", "note", "an ELF note of owner 'inlay', so that hosts know the file before its code runs",
                   "write KIT_PLUGIN_NAMED(...), or INLAY_PLUGIN_NOTE(...) beside inlay_plugin_open", "there is none");
    else if (note_fits_host(&facts, &diag) != INLAY_OK)
        check_fail(c, "file", "note", "a plugin for this host and this CPU",
                   "compile it for less, or check it elsewhere", "%s", diag.text);
    else if (facts.name[0] == '\0')
        check_warn(c, "file", "note", "names in the note, so that hosts can say what was in a file that does not load",
                   "write KIT_PLUGIN_NAMED(...) instead of KIT_PLUGIN(...)", "it gives no names");
    else
        check_pass(c, "file", "note", "%s for ABI %u.%u: providers '%s', domains '%s'", facts.name,
                   facts.note.abi_major, facts.note.abi_minor, facts.providers, facts.domains);
    if (facts.build_id[0] != '\0')
        check_pass(c, "file", "build id", "%s", facts.build_id);
    else
        check_warn(c, "file", "build id", "the linker's build id, by which caches tell builds apart",
                   "link with -Wl,--build-id", "there is none");
}

void check_group_file(struct check *c)
{
    elf_file f = { .c = c };
    int fd = open(c->args->file, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (!check_unit(c, "%s", c->args->file))
        return;
    check_phase(c, "reading the file");
    if (fd < 0 || fstat(fd, &st) != 0) {
        check_fail(c, "file", "read", "a file that can be read", "name the plugin's .so", "%s", strerror(errno));
    } else if (elf_version(EV_CURRENT) == EV_NONE || (f.elf = elf_begin(fd, ELF_C_READ, NULL)) == NULL ||
               elf_kind(f.elf) != ELF_K_ELF || gelf_getehdr(f.elf, &f.header) == NULL) {
        check_fail(c, "file", "type", "an ELF file", "name the plugin's .so", "something else, or a damaged one");
    } else {
        if ((st.st_mode & S_IWOTH) != 0)
            check_fail(c, "file", "mode", "that only its owner may write to it", "chmod o-w",
                       "anybody may write to it, so hosts refuse it");
        check_header(&f);
        check_symbols(&f);
        check_dynamic(&f);
        check_segments(&f);
        check_note(c, fd, (uint64_t)st.st_size);
    }
    if (f.elf != NULL)
        (void)elf_end(f.elf);
    if (fd >= 0)
        (void)close(fd);
}
