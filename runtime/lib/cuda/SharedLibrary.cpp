#include "SharedLibrary.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>

namespace scrimp::runtime::cuda {

namespace fs = std::filesystem;

/// The folders of pip's packages of NVIDIA's libraries.
static std::vector<std::string> packageFolders() {
  std::vector<fs::path> sites;
  std::error_code ignored;
  auto addPrefix = [&](const fs::path &prefix) {
    for (const char *lib : {"lib", "lib64", "local/lib"})
      for (fs::directory_iterator it(prefix / lib, ignored), end; !ignored && it != end; it.increment(ignored))
        if (it->path().filename().string().rfind("python3", 0) == 0)
          for (const char *packages : {"site-packages", "dist-packages"})
            sites.push_back(it->path() / packages);
    ignored.clear();
  };
  if (const char *path = getenv("PYTHONPATH"))
    for (std::string rest = path; !rest.empty();) {
      size_t colon = rest.find(':');
      sites.emplace_back(rest.substr(0, colon));
      rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
  for (const char *variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char *prefix = getenv(variable))
      addPrefix(prefix);
  if (const char *home = getenv("HOME"))
    addPrefix(fs::path(home) / ".local");
  addPrefix("/usr/local");
  addPrefix("/usr");
  std::vector<std::string> folders;
  for (const fs::path &site : sites)
    for (fs::directory_iterator it(site / "nvidia", ignored), end; !ignored && it != end; it.increment(ignored))
      folders.push_back((it->path() / "lib").string());
  return folders;
}

Result<SharedLibrary> SharedLibrary::open(const std::vector<std::string> &names, const std::string &folder,
                                          const char *use) {
  SharedLibrary library;
  auto tryOpen = [&](const std::string &path) {
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.file = path;
    link_map *map = nullptr;
    if (library.handle && !dlinfo(library.handle, RTLD_DI_LINKMAP, &map) && map && *map->l_name)
      library.file = map->l_name;
    return library.handle != nullptr;
  };
  std::string problem; // of a file that is there
  auto tryFolder = [&](const std::string &place) {
    std::error_code ignored;
    for (const std::string &name : names) {
      std::string path = place + "/" + name;
      if (!fs::exists(path, ignored))
        continue;
      if (tryOpen(path))
        return true;
      problem = dlerror();
    }
    return false;
  };
  if (!folder.empty()) {
    if (tryFolder(folder))
      return library;
  } else {
    for (const std::string &name : names)
      if (tryOpen(name))
        return library;
    for (const std::string &place : packageFolders())
      if (tryFolder(place))
        return library;
  }
  if (!problem.empty())
    return Status::error("%s cannot be loaded: %s", names.front().c_str(), problem.c_str());
  std::string all = names.front();
  for (size_t i = 1; i < names.size(); ++i)
    all += " or " + names[i];
  if (!folder.empty())
    return Status::error("there is no %s, which %s, in '%s'", all.c_str(), use, folder.c_str());
  return Status::error(
      "there is no %s, which %s: neither where the loader looks (LD_LIBRARY_PATH, ldconfig) nor in pip's "
      "nvidia packages; give --cuda-libs FOLDER, or install it",
      all.c_str(), use);
}

void *SharedLibrary::find(const char *symbol) const { return handle ? dlsym(handle, symbol) : nullptr; }

Status SharedLibrary::missing(const char *symbol) const {
  return Status::error("'%s' is too old: it has no %s", file.c_str(), symbol);
}

} // namespace scrimp::runtime::cuda
