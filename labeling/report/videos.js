(() => {
  const videos = [...document.querySelectorAll("details.video")];
  const tools = document.querySelector(".tools");
  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) { target.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  open();
  if (videos.length > 1) tools.hidden = false;
  document.getElementById("filter").addEventListener("input", event => {
    const wanted = event.target.value.trim().toLowerCase();
    let shown = 0;
    for (const video of videos) shown += !(video.hidden = !video.dataset.name.includes(wanted));
    document.getElementById("none").hidden = shown > 0 || !videos.length;
  });
  for (const button of tools.querySelectorAll("button"))
    button.addEventListener("click", () => videos.forEach(video => { video.open = !!button.dataset.all; }));
  addEventListener("beforeprint", () => {
    videos.forEach(video => { video.open = true; });
    document.querySelectorAll("img").forEach(image => { image.loading = "eager"; });
  });
})();
