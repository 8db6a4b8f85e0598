// Browsers start no worker for a page that was opened as a file. The search then works in a frame of the same page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #inside = null;

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = () => {};
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.#inside = inside;
        this.#waiting.splice(0).forEach(data => this.postMessage(data));
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.#inside) this.#inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.#waiting.push(data);
    }

    terminate() {}
  };
}
