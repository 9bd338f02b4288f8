/* Checks the ELF file without running its code. */
#include "check/check.h"
#include "inlay/plugin.h"
#include "plugin/note.h"
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct elf_file {
    struct check *check;
    Elf *elf;
    GElf_Ehdr header;
} elf_file;

/* The first section of a type and its header; NULL: none. */
static Elf_Data *section_data(const elf_file *file, uint32_t type, GElf_Shdr *out_header)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(file->elf, section)) != NULL)
        if (gelf_getshdr(section, out_header) != NULL && out_header->sh_type == type)
            return elf_getdata(section, NULL);
    return NULL;
}

static size_t entries(const GElf_Shdr *header)
{
    return header->sh_entsize > 0 ? (size_t)(header->sh_size / header->sh_entsize) : 0;
}

/* Appends to a comma-separated list: "a, b". */
static void list_add(char *list, size_t bytes, const char *name)
{
    size_t used = strlen(list);

    if (used + 4 < bytes)
        (void)snprintf(list + used, bytes - used, "%s%s", used > 0 ? ", " : "", name);
}

static void check_header(const elf_file *file)
{
#if defined(__x86_64__)
    const uint32_t machine = EM_X86_64;
#elif defined(__aarch64__)
    const uint32_t machine = EM_AARCH64;
#else
    const uint32_t machine = file->header.e_machine;
#endif
    if (file->header.e_type != ET_DYN)
        check_fail(file->check, "file", "type", "a shared object (ET_DYN)", "link with -shared", "ELF type %u",
                   file->header.e_type);
    else if (file->header.e_machine != machine || file->header.e_ident[EI_CLASS] != ELFCLASS64)
        check_fail(file->check, "file", "machine", "code for this machine", "compile for the machine that will load it",
                   "ELF machine %u, class %u", file->header.e_machine, file->header.e_ident[EI_CLASS]);
    else
        check_pass(file->check, "file", "type", "a shared object for this machine");
}

static void check_symbols(const elf_file *file)
{
    GElf_Shdr header;
    Elf_Data *data = section_data(file, SHT_DYNSYM, &header);
    char exported[400] = "", wanted[400] = "";
    uint32_t others = 0;
    bool opens = false, is_ort_ep = false;

    for (size_t i = 1; data != NULL && i < entries(&header); i++) {
        GElf_Sym symbol;
        const char *name;

        if (gelf_getsym(data, (int)i, &symbol) == NULL || GELF_ST_BIND(symbol.st_info) == STB_LOCAL ||
            (name = elf_strptr(file->elf, header.sh_link, symbol.st_name)) == NULL)
            continue;
        if (symbol.st_shndx == SHN_UNDEF) {
            if (strncmp(name, "inlay_", 6) == 0)
                list_add(wanted, sizeof wanted, name);
        } else if (strcmp(name, INLAY_PLUGIN_OPEN_SYMBOL) == 0) {
            opens = true;
        } else if (symbol.st_shndx != SHN_ABS) { /* SHN_ABS: version names */
            others++;
            is_ort_ep = is_ort_ep || strcmp(name, "CreateEpFactories") == 0;
            list_add(exported, sizeof exported, name);
        }
    }
    if (!opens)
        check_fail(file->check, "file", "exports", "the symbol " INLAY_PLUGIN_OPEN_SYMBOL,
                   is_ort_ep ? "it is the library of an ONNX Runtime execution provider: check it with --ort-ep"
                             : "define it with KIT_PLUGIN(...) in one file, or declare it with INLAY_EXPORT",
                   "it is not exported");
    if (others > 0)
        check_fail(file->check, "file", "exports", "nothing but " INLAY_PLUGIN_OPEN_SYMBOL,
                   "link with the SDK's plugin.map (-Wl,--version-script=) and compile with -fvisibility=hidden: other "
                   "names clash between plugins",
                   "%u more: %s", others, exported);
    else if (opens)
        check_pass(file->check, "file", "exports", INLAY_PLUGIN_OPEN_SYMBOL " only");
    if (wanted[0] != '\0')
        check_fail(file->check, "file", "undefined", "no symbol of the host: plugins do not link to libinlay",
                   "call the host through the table that inlay_plugin_open receives, and link the kit statically",
                   "it needs %s", wanted);
}

static void check_path(const elf_file *file, const char *kind, const char *path)
{
    char list[512], *rest = list, *one;

    (void)snprintf(list, sizeof list, "%s", path);
    while ((one = strsep(&rest, ":")) != NULL) {
        if (strncmp(one, "$ORIGIN", 7) == 0 || strncmp(one, "${ORIGIN}", 9) == 0 || strncmp(one, "/usr/", 5) == 0 ||
            strncmp(one, "/opt/", 5) == 0 || strncmp(one, "/lib", 4) == 0)
            continue;
        if (one[0] != '/')
            check_fail(file->check, "file", kind, "absolute folders, or folders relative to $ORIGIN",
                       "remove it (-DCMAKE_SKIP_RPATH=ON): a relative folder loads libraries from the working "
                       "directory of the user",
                       "'%s'", one);
        else
            check_warn(file->check, "file", kind, "folders that exist on the machines of users",
                       "install with cmake --install, or set CMAKE_INSTALL_RPATH to $ORIGIN", "'%s'", one);
    }
}

static void check_dynamic(const elf_file *file)
{
    GElf_Shdr header;
    Elf_Data *data = section_data(file, SHT_DYNAMIC, &header);
    char needed[500] = "";
    bool text_relocations = false;

    if (data == NULL) {
        check_fail(file->check, "file", "dynamic", "a dynamic section", "link with -shared", "the section is missing");
        return;
    }
    for (size_t i = 0; i < entries(&header); i++) {
        GElf_Dyn entry;
        const char *text;

        if (gelf_getdyn(data, (int)i, &entry) == NULL || entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_TEXTREL || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL) != 0))
            text_relocations = true;
        text = entry.d_tag == DT_NEEDED || entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH
                   ? elf_strptr(file->elf, header.sh_link, (size_t)entry.d_un.d_val)
                   : NULL;
        if (text == NULL)
            continue;
        if (entry.d_tag == DT_NEEDED) {
            list_add(needed, sizeof needed, text);
            if (strncmp(text, "libinlay", 8) == 0)
                check_fail(file->check, "file", "needs", "a plugin that does not link to libinlay",
                           "link to inlay::kit (inlay-kit.pc), not to inlay::inlay", "it needs %s", text);
        } else {
            check_path(file, entry.d_tag == DT_RPATH ? "rpath" : "runpath", text);
        }
    }
    check_pass(file->check, "file", "needs", "%s", needed[0] != '\0' ? needed : "no library");
    if (text_relocations)
        check_fail(file->check, "file", "relocations", "position-independent code", "compile with -fPIC",
                   "text relocations (DT_TEXTREL)");
    else
        check_pass(file->check, "file", "relocations", "none in code");
}

static void check_segments(const elf_file *file)
{
    bool stack = false, executable = false;
    size_t count = 0;

    if (elf_getphdrnum(file->elf, &count) != 0)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;

        if (gelf_getphdr(file->elf, (int)i, &segment) == NULL)
            continue;
        if (segment.p_type == PT_GNU_STACK) {
            stack = true;
            executable = (segment.p_flags & PF_X) != 0;
        }
    }
    if (!stack || executable)
        check_fail(file->check, "file", "stack", "a stack that is not executable",
                   "link with -Wl,-z,noexecstack; assembler files need .section .note.GNU-stack", "%s",
                   stack ? "PT_GNU_STACK requests an executable stack"
                         : "no PT_GNU_STACK, which requests an executable stack");
    else
        check_pass(file->check, "file", "stack", "not executable");
}

/* Checks the plugin note, which hosts read before they load the file. */
static void check_note(struct check *check, int fd, uint64_t bytes)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    note_facts facts;

    if (note_read(fd, bytes, &facts, &diag) != INLAY_OK) {
        check_fail(check, "file", "note", "a file that hosts can read before they load it", "rebuild the plugin", "%s",
                   diag.text);
        return;
    }
    if (!facts.present)
        check_warn(
            check, "file", "note", "an ELF note of owner 'inlay', so that hosts know the file before its code runs",
            "write KIT_PLUGIN_NAMED(...), or INLAY_PLUGIN_NOTE(...) next to inlay_plugin_open", "the note is missing");
    else if (note_fits_host(&facts, &diag) != INLAY_OK)
        check_fail(check, "file", "note", "a plugin for this host and this CPU",
                   "compile it for fewer CPU features, or check it on a machine that has them", "%s", diag.text);
    else if (facts.name[0] == '\0')
        check_warn(check, "file", "note", "names in the note, so that hosts can describe a file that does not load",
                   "write KIT_PLUGIN_NAMED(...) instead of KIT_PLUGIN(...)", "the note has no names");
    else if (facts.version[0] == '\0')
        check_warn(check, "file", "note",
                   "a version in the note: of two files in one folder, the host takes the higher",
                   "define INLAY_NOTE_VERSION before you include inlay's headers", "the note has no version");
    else
        check_pass(check, "file", "note", "%s %s for ABI %u.%u: providers '%s', domains '%s'", facts.name,
                   facts.version, facts.note.abi_major, facts.note.abi_minor, facts.providers, facts.domains);
    if (facts.build_id[0] != '\0')
        check_pass(check, "file", "build id", "%s", facts.build_id);
    else
        check_warn(check, "file", "build id", "a build id of the linker, by which caches distinguish builds",
                   "link with -Wl,--build-id", "the build id is missing");
}

void check_group_file(struct check *check)
{
    elf_file file = { .check = check };
    int fd = open(check->args->file, O_RDONLY | O_CLOEXEC);
    struct stat st;

    if (!check_unit(check, "%s", check->args->file))
        return;
    check_phase(check, "reading the file");
    if (fd < 0 || fstat(fd, &st) != 0) {
        check_fail(check, "file", "read", "a file that can be read", "name the plugin's .so", "%s", strerror(errno));
    } else if (elf_version(EV_CURRENT) == EV_NONE || (file.elf = elf_begin(fd, ELF_C_READ, NULL)) == NULL ||
               elf_kind(file.elf) != ELF_K_ELF || gelf_getehdr(file.elf, &file.header) == NULL) {
        check_fail(check, "file", "type", "an ELF file", "name the plugin's .so", "not an ELF file, or a damaged one");
    } else {
        if ((st.st_mode & S_IWOTH) != 0)
            check_fail(check, "file", "mode", "a file that others cannot write to", "chmod o-w",
                       "the file is world-writable, so hosts refuse it");
        check_header(&file);
        check_symbols(&file);
        check_dynamic(&file);
        check_segments(&file);
        check_note(check, fd, (uint64_t)st.st_size);
    }
    if (file.elf != NULL)
        (void)elf_end(file.elf);
    if (fd >= 0)
        (void)close(fd);
}
