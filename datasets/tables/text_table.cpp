// Loads librondo_arrow.so from the folder of the program, from the folder above it, where the
// programs of the tests find it, or from the lib/ of an installed program. RTLD_LOCAL keeps Arrow's
// symbols apart from LibTorch's. The library stays loaded. It sees a file as TableFile, so reads
// are patient as those of all data files, and its messages get the file's name here.
#include "datasets/tables/text_table.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <new>

#include "support/error.h"
#include "support/files/input_file.h"
#include "support/printable.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, fmt::format("{}: {}", path, printable(what)));
}

#if RONDO_ARROW
constexpr const char* kLibrary = "librondo_arrow.so";

OpenArrowTable* load_library() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  fs::path path = folder.parent_path() / "lib" / kLibrary;
  for (const fs::path& place : {folder, folder.parent_path()})
    if (fs::exists(place / kLibrary, ignored)) path = place / kLibrary;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, kOpenArrowTable);
  if (function == nullptr)
    throw UnreadableTable(fmt::format(
        "cannot load Arrow, which reads Parquet and Arrow IPC: {}. Run scripts/setup.sh --arrow, and "
        "scripts/build.sh again",
        dlerror()));
  return reinterpret_cast<OpenArrowTable*>(function);
}

std::unique_ptr<TextTable> open_arrow_table(std::unique_ptr<TableFile> file, std::string_view text_key) {
  static OpenArrowTable* const open = load_library();
  return open(std::move(file), text_key);
}
#else
std::unique_ptr<TextTable> open_arrow_table(std::unique_ptr<TableFile>, std::string_view) {
  throw UnreadableTable(
      "this program was built without Arrow, which reads Parquet and Arrow IPC. Run scripts/setup.sh "
      "--arrow, and "
      "scripts/build.sh again");
}
#endif

class PatientFile final : public TableFile {
 public:
  explicit PatientFile(const std::string& path) : file_(path, FileUse::data) {}
  std::int64_t size() const override { return file_.size(); }
  std::size_t read_some_at(std::int64_t offset, std::span<std::byte> out) const override {
    return file_.read_some_at(offset, out);
  }

 private:
  InputFile file_;
};

// Puts the name of the file into what goes wrong.
template <class Action>
auto named(const std::string& path, const Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error&) {  // of PatientFile
    throw;
  } catch (const UnreadableTable& error) {
    fail(path, error.what());
  } catch (const std::exception& error) {
    fail(path, fmt::format("is damaged: {}. Fetch the file again", error.what()));
  }
}

class NamedTable final : public TextTable {
 public:
  NamedTable(const std::string& path, std::string_view text_key)
      : path_(path),
        table_(named(path, [&] { return open_arrow_table(std::make_unique<PatientFile>(path), text_key); })) {
  }
  std::optional<TableRow> read(std::int64_t row) override {
    return named(path_, [&] { return table_->read(row); });
  }
  Facts facts() const override { return table_->facts(); }

 private:
  std::string path_;
  std::unique_ptr<TextTable> table_;
};

}  // namespace

std::unique_ptr<TextTable> open_table(const std::string& path, std::string_view text_key) {
  return std::make_unique<NamedTable>(path, text_key);
}

}  // namespace rondo
