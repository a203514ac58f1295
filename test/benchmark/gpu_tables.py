"""What gpu.py found, as the tables of RESULTS.md."""


def why(found):
    return found.get("skipped") or found.get("failed", "")


def yes(value):
    return "–" if value is None else "yes" if value else "NO"


def number(value, digits=1):
    return "–" if value is None else f"{value:,.{digits}f}"


def tables(found, manifest, machine):
    parts, fake = found["parts"], manifest["fakes"]
    lines = [f"## {found['date']}: {machine.get('card', 'no card')}" + (f", driver {machine['driver']}" if machine.get("driver") else "") + f", {found['source']}", ""]
    lines.append(f"`test/benchmark/gpu.sh {'dry-run' if fake else 'run'}`, {found['seconds']:.0f} s.")
    lines += ["", "| program | losses from the CPU's | bound | again | resumed | one graph a step | arena as planned |", "|---|---|---|---|---|---|---|"]
    for program in manifest["programs"]:
        part = parts.get(program["name"])
        if not part:
            continue
        if why(part):
            lines.append(f"| {program['name']} | {why(part)} | | | | | |")
            continue
        apart = f"{part['apart']:.1g}" + ("" if part["close"] else " NO") + f" ({part['compared']} steps)"
        cells = [part["bound"], *(yes(part.get(k)) for k in ("again", "resumed", "one_launch", "arena"))]
        lines.append(f"| {program['name']} | {apart} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| model | batch | step, ms | tokens/s | arena planned, MiB | allocated | planned in all | stated in all | peak (nvidia-smi) |", "|---|---|---|---|---|---|---|---|---|"]
    for program in manifest["programs"]:
        part = parts.get(f"{program['name']} speed")
        if not part:
            continue
        batch = f"{program['batch']} × {program['length']}"
        if why(part):
            lines.append(f"| {program['name']} | {batch} | {why(part)} | | | | | | |")
            continue
        step = number(1e3 * part["step_seconds"]) if "step_seconds" in part else part["ended"]
        peak = number(part.get("peak_mib"), 0) if part.get("peak_mib") is not None else "needs a GPU" if fake else "–"
        figures = [part.get("planned_mib"), part.get("arena_mib"), program["planned_all_mib"], part.get("stated_mib")]
        cells = [batch, step, number(part.get("tokens_per_second"), 0), *map(number, figures), peak]
        lines.append(f"| {program['name']} | " + " | ".join(cells) + " |")
    for name, part in parts.items():
        if name.endswith(" torch"):
            if why(part):
                lines.append(f"| torch.compile | | {'needs a GPU: ' if fake else ''}{why(part)} | | | | | | |")
            else:
                cells = [number(1e3 * part["step_seconds"]), number(part["tokens_per_second"], 0), "–", number(part["allocated_mib"]), "–", "–", number(part["peak_mib"], 0)]
                lines.append(f"| {name[:-6]}, PyTorch {part['version']} | | " + " | ".join(cells) + " |")
    copied = parts.get("copy", {})
    rate = copied.get("gb_per_second")
    lines += ["", f"A copy on the device: {number(rate, 0) + ' GB/s' if rate else why(copied)}."]
    torch = next((p for n, p in parts.items() if n.endswith(" torch")), {})
    alone = {tuple(p["product"]): p["tflop_per_second"] for p in torch.get("products", [])}
    for name, part in parts.items():
        if not name.endswith(" kernels"):
            continue
        if why(part):
            lines.append(f"{name}: {why(part)}")
            continue
        note = "on a host's threads: needs a GPU" if fake else f"{part['overhead_us']:.1f} us of a launch taken off"
        lines += ["", f"{name[:-8]}, traced ({note}):", "", "| what | first for | runs | ms a step | GB/s | of a copy | TFLOP/s | torch.matmul's |", "|---|---|---|---|---|---|---|---|"]
        for row in part["rows"][:20]:
            product = "product" in row
            moved = "" if product else number(row.get("gb_per_second"), 0)
            share = f"{row['gb_per_second'] / rate:.2f}" if rate and not product and "gb_per_second" in row else ""
            flops = number(row.get("tflop_per_second")) if product else ""
            theirs = number(alone[tuple(row["product"])]) if product and tuple(row["product"]) in alone else ""
            lines.append(f"| {row['what']} | {row['where']} | {row['runs']} | {row['us'] / 1e3:.3f} | {moved} | {share} | {flops} | {theirs} |")
    return "\n".join(lines) + "\n"
